package limits

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// become replaces the process. The parent-death signal belongs to a thread, and of all threads only the one that
// calls exec remains: it asks for the signal anew.
func become(path string, argv, env []string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec(path, argv, env)
}
