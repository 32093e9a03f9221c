// Guyline processes inspection reports durably: see the README, and `guyline help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/guyline/guyline/config"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/internal/loglines"
	"github.com/guyline/guyline/report"
)

var version = "dev" // set by the linker

// Exit codes.
const (
	exitFailed = 1 // it did not work
	exitUsage  = 2 // wrong usage or configuration
	exitPerson = 3 // it worked, and the answer needs a person
)

// usageError is an error of whoever typed the command.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends a command with an exit code of its own.
type exitError struct {
	error
	code int
}

// errPerson ends a command that worked with exit code 3. What is to be said has been said.
var errPerson = errors.New("the answer needs a person")

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, signals))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, signals <-chan os.Signal) int {
	out := &output{to: stdout}
	a := &app{stdin: stdin, stdout: out, stderr: stderr, hurry: make(chan struct{})}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go a.obey(signals, done, stop)
	root := a.command()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	a.flushLog()
	if failed := out.err(); failed != nil && (err == nil || errors.Is(err, errPerson)) {
		err = failed
	}
	if err == nil {
		return 0
	}
	if errors.Is(err, errPerson) {
		return exitPerson
	}
	fmt.Fprintln(stderr, "guyline:", report.Line(err.Error(), maxLine))
	if e, ok := errors.AsType[exitError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[usageError](err); ok || errors.Is(err, embedded.ErrNoStore) {
		return exitUsage
	}
	return exitFailed
}

// app is what every command shares.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	json           bool
	actor          string // of an operator's act
	forget         bool   // setup may let the ledger forget what it holds

	cfg   config.Config
	log   *slog.Logger
	above *aboveBar        // between the logger and stderr
	lines *loglines.Writer // between the logger and above, unless that is a terminal
	hurry chan struct{}    // closed by the second signal
}

// obey stops the command at the first signal, and at the second has running attempts cut.
func (a *app) obey(signals <-chan os.Signal, done <-chan struct{}, stop func()) {
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-signals:
		}
		switch n {
		case 1:
			stop()
		case 2:
			close(a.hurry)
		}
	}
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "guyline",
		Short: "Durable processing of inspection reports on NATS JetStream",
		Long: "Durable processing of inspection reports on NATS JetStream.\n" +
			"No report is lost, recorded twice, or left unexplained.\n\n" +
			"Exit codes: 0 well; 1 failed; 2 wrong usage or configuration; 3 it worked, and the answer needs a person.",
		Args:              cobra.NoArgs,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := emptyFlag(cmd); err != nil {
				return err
			}
			return a.configure()
		},
	}
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON: one value, or JSON lines for lists")
	root.PersistentFlags().StringVar(&a.actor, "actor", actor(), "who acts, for the audit trail")
	root.AddCommand(
		a.runCommand(), a.publishCommand(), a.statusCommand(), a.resultsCommand(), a.showCommand(), a.whyCommand(),
		a.reconcileCommand(), a.reprocessCommand(), a.dlqCommand(),
		a.sitesCommand(), a.auditCommand(), a.inspectCommand(), a.setupCommand(), a.doctorCommand(), a.configCommand(), a.demoCommand(), a.versionCommand(),
		a.extractChildCommand(), a.chaosCommand(), a.benchCommand(), a.benchServerCommand(), a.benchWorkerCommand(),
	)
	root.AddCommand(a.chaosParts()...)
	root.SetHelpCommand(helpCommand(root))
	asUsage(root)
	return root
}

// helpCommand is cobra's, but does not take a command that is not there for a wish to see all of them.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("unknown command %q (see `guyline --help`)", strings.Join(args, " "))}
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// group is a command that only holds others.
func group(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// asUsage makes wrong flags and arguments of every command usage errors that point to its help.
func asUsage(cmd *cobra.Command) {
	hint := func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see `%s --help`)", plain(err), c.CommandPath())}
	}
	cmd.SetFlagErrorFunc(hint)
	if args := cmd.Args; args != nil {
		cmd.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				if !c.HasSubCommands() { // cobra's words count arguments, or take one for a command
					err = fmt.Errorf("the form is `%s`; arguments given: %d", strings.TrimSuffix(c.UseLine(), " [flags]"), len(given))
				}
				return hint(c, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		asUsage(sub)
	}
}

// emptyFlag finds a flag that was given with nothing: a shell's variable that is not set would list, publish or replay what nobody meant.
func emptyFlag(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = usageError{fmt.Errorf("--%s is empty: leave it out, or say what is meant (see `%s --help`)", f.Name, cmd.CommandPath())}
		}
	})
	return err
}

// plain says what a flag must be, in place of what a parser says.
func plain(err error) error {
	e, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want := map[string]string{
		"int": "a whole number", "intSlice": "whole numbers, like 1000,20000", "uint": "a whole number, not below 0", "uint64": "a whole number, not below 0",
		"bool": "true or false", "float64": "a number", "duration": "a duration, like 90s or 5m", "durationSlice": "durations, like 50ms,5s",
	}[e.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("--%s is %q, it must be %s", e.GetFlag().Name, e.GetValue(), want)
}

func (a *app) configure() error {
	cfg, err := config.Load()
	if err != nil {
		return usageError{err}
	}
	if report.Clean(a.actor) == "" {
		return usageError{errors.New("--actor is empty: say who acts, it stays in the audit trail")}
	}
	a.cfg = cfg
	a.above = &aboveBar{w: a.stderr}
	terminal := isTerminal(a.stderr)
	var out io.Writer = a.above
	if !terminal {
		a.lines = loglines.New(a.above)
		out = a.lines
	}
	var h slog.Handler
	if cfg.LogFormat == "json" || cfg.LogFormat == "auto" && !terminal {
		h = slog.NewJSONHandler(out, &slog.HandlerOptions{Level: cfg.Level()})
	} else {
		h = tint.NewTextHandler(out, &tint.Options{Level: cfg.Level(), TimeFormat: "15:04:05.000", NoColor: !terminal})
	}
	if a.lines != nil {
		h = loglines.Handler(h, a.lines)
	}
	a.log = slog.New(h)
	return nil
}

// flushLog writes the lines that wait for others.
func (a *app) flushLog() {
	if a.lines != nil {
		_ = a.lines.Flush()
	}
}

func isTerminal(w any) bool {
	if out, ok := w.(*output); ok {
		w = out.to
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
