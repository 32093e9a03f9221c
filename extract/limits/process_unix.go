//go:build unix && !linux

package limits

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (p *Process) kill() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

func (p *Process) reap() error {
	err := p.cmd.Wait()
	p.last()
	return err
}
