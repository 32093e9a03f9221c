package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// ExitConfig is the exit code of the hidden command when [Exec] fails: EX_CONFIG of sysexits.h, the installation
// is at fault.
const ExitConfig = 78

// Args are the arguments for the hidden command whose body is [Exec], to run argv under l.
func (l Limits) Args(argv []string) []string {
	b, _ := json.Marshal(l) // numbers only
	return append([]string{string(b)}, argv...)
}

// Exec replaces this process by the program that args name, made by [Limits.Args], under their limits. The program
// gets this process's environment, descriptors 0 to keep, and no others. It returns only if that fails.
// (Windows cannot replace a process: there it runs the program and exits with its code.)
func Exec(args []string, keep int) error {
	if len(args) < 2 {
		return errors.New("limits: run a program under limits: no program given; this command is for guyline's own use")
	}
	var l Limits
	if err := json.Unmarshal([]byte(args[0]), &l); err != nil {
		return fmt.Errorf("limits: read the limits %.80q: %w; this command is for guyline's own use", args[0], err)
	}
	argv := args[1:]
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("limits: find the program: %w; install it or correct the command", err)
	}
	if err := CloseInherited(keep); err != nil {
		return err
	}
	if err := l.Apply(); err != nil {
		return err
	}
	if err := become(path, argv, os.Environ()); err != nil {
		return fmt.Errorf("limits: run %s: %w; correct the command", path, err)
	}
	return nil
}
