//go:build unix && !linux

package chaos

import "syscall"

func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
