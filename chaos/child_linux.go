package chaos

import "syscall"

// attributes of a child: a group of its own, so that Ctrl-C reaches the harness alone; and one that dies is killed by the kernel,
// even a stopped one, when the harness dies.
func attributes(dies bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if dies {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
