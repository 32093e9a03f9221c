package limits

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Missing names the limits that this system does not have.
func Missing() []string { return nil }

// AllowCPU ends the process by SIGXCPU when it has used so much more CPU time than it has now, rounded up to a
// second. Each call replaces the one before; a long-lived process calls it before each piece of work.
func AllowCPU(more time.Duration) error {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("limits: read the CPU time used: %w", err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CPU, &limit); err != nil {
		return fmt.Errorf("limits: read the limit of CPU time: %w", err)
	}
	spent := time.Duration(used.Utime.Nano() + used.Stime.Nano())
	limit.Cur = min(seconds(spent+more), limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_CPU, &limit); err != nil {
		return fmt.Errorf("limits: limit CPU time to %v more: %w", more, err)
	}
	// Go's handler ignores SIGXCPU, and a handler would be of no use to a process that spins. The kernel's struct
	// sigaction has four words; zeros stand for the default action.
	var deadly [4]uint64
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGXCPU), uintptr(unsafe.Pointer(&deadly)), 0, 8, 0, 0); errno != 0 {
		return fmt.Errorf("limits: let SIGXCPU end the process: %w", errno)
	}
	return nil
}

// preferAsVictim has the kernel's out-of-memory killer take this process before the worker. Where /proc cannot be
// written, the usual choice remains.
func preferAsVictim() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}
