package part

import "syscall"

// Attributes are those of a process that belongs to this one: a group of its own, so that Ctrl-C reaches this one alone; and, if it dies with
// this one, the kernel kills it then. The kernel goes by the thread that has started it; Go ends none to which no goroutine was locked.
func Attributes(dies bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if dies {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
