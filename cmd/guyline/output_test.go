package main

import (
	"bytes"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag that was given with nothing, as by a shell's variable that is not set, is no flag left out, whatever the command.
func TestEmptyFlags(t *testing.T) {
	t.Parallel()
	var look func(*cobra.Command)
	n := 0
	look = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			look(sub)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if cmd.RunE == nil || f.Value.Type() != "string" {
				return
			}
			n++
			args := append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name, "")
			for _, given := range [][]string{nil, {"0123"}, {"TWR-1", "a.pdf"}} {
				if cmd.ValidateArgs(given) == nil {
					args = append(args, given...)
					break
				}
			}
			var out, errs bytes.Buffer
			code := run(t.Context(), args, strings.NewReader(""), &out, &errs, nil)
			if code != exitUsage || !strings.Contains(errs.String(), "--"+f.Name+" is empty") {
				t.Errorf("%q: exit %d, %s%s", args, code, &out, &errs)
			}
		})
	}
	look((&app{}).command())
	if n < 40 {
		t.Errorf("only %d flags were tried", n)
	}
}

// A command that could not write its answer has failed.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help"}, {"version"}, {"version", "--json"}, {"config"}, {"demo"}} {
		var errs bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), fullDisk{}, &errs, nil); code != exitFailed || !strings.Contains(errs.String(), "guyline: no space left on device") {
			t.Errorf("%q: exit %d, %s", args, code, &errs)
		}
	}
}

// fullDisk is a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// No help shows a value for a flag that takes none: words in backquotes become one.
func TestHelpOfSwitches(t *testing.T) {
	t.Parallel()
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); f.Value.Type() == "bool" && value != "" {
				t.Errorf("%s: --%s %s", cmd.CommandPath(), f.Name, value)
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look((&app{}).command())
}

// The columns of a table go on over rows that end early, and no line ends with blanks.
func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := newTable(&out, "KEY", "BY", "REASON")
	w.row("a", "somebody@host", "moved")
	w.row("b", "x", "")
	w.row("c", "", "")
	w.row("d", "y", "lost")
	w.row("")
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	w = newTable(&out)
	w.row("due", "")
	w.row("upstream", "file")
	w.row("dead", "3", "of them 1 poison")
	w.row("stranded", "0", "")
	w.row("next due", "3 days from now", "among the dead")
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	const want = "KEY  BY             REASON\n" +
		"a    somebody@host  moved\n" +
		"b    x\n" +
		"c\n" +
		"d    y              lost\n" +
		"\n" +
		"due\n" +
		"upstream  file\n" +
		"dead      3  of them 1 poison\n" +
		"stranded  0\n" +
		"next due  3 days from now  among the dead\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
