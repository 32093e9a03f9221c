//go:build !unix

package limits

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

func (p *Process) kill() { _ = p.cmd.Process.Kill() }

func (p *Process) reap() error {
	err := p.cmd.Wait()
	p.last()
	return err
}
