package main

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
