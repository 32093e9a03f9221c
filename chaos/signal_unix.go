//go:build unix

package chaos

import "syscall"

const supported = true

const (
	terminate = syscall.SIGTERM
	freeze    = syscall.SIGSTOP
	thaw      = syscall.SIGCONT
)
