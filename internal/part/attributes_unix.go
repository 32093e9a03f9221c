//go:build unix && !linux

package part

import "syscall"

// Attributes are those of a process that belongs to this one: a group of its own, so that Ctrl-C reaches this one alone.
func Attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
