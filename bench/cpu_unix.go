//go:build unix

package bench

import (
	"fmt"
	"syscall"
	"time"
)

// ownCPU is the processor time that this process has used.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("%w: %w", errUnknown, err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
