//go:build !unix

package chaos

import "syscall"

const supported = false // nothing here can stop a process and let it go on

const (
	terminate = syscall.SIGTERM
	freeze    = syscall.SIGTERM
	thaw      = syscall.SIGTERM
)
