//go:build !linux

package bench

import "time"

func processCPU(int) (time.Duration, error) { return 0, ErrUnknown }
func residentNow(int) (int64, error)        { return 0, ErrUnknown }
func residentPeak(int) (int64, error)       { return 0, ErrUnknown }
func resetPeak(int) error                   { return ErrUnknown }

// Load is the load average of the last minute.
func Load() (float64, error) { return 0, ErrUnknown }
