//go:build !linux

package bench

import "time"

func processCPU(int) (time.Duration, error) { return 0, errUnknown }
func residentNow(int) (int64, error)        { return 0, errUnknown }
func residentPeak(int) (int64, error)       { return 0, errUnknown }
func resetPeak(int) error                   { return errUnknown }

// loadAverage is the load average of the last minute.
func loadAverage() (float64, error) { return 0, errUnknown }
