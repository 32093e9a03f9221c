// Command peers measures the same job on Guyline and on the systems that one would use instead, interleaved, and prints a table.
// See README.md; the script run builds and starts it.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// The hidden modes, in which this program starts itself again. Their settings come by standard input.
const (
	serveNATS = "serve-nats"
	workOnce  = "work-once"
)

// rowTime bounds one row in one repetition, its servers' start included.
const rowTime = 3 * time.Minute

func main() {
	runtime.LockOSThread() // the servers die with the thread that started them
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 1 {
		switch args[0] {
		case serveNATS:
			return runNATS(stdin)
		case workOnce:
			return runTask(ctx, stdin, stdout)
		}
	}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	n := flags.Int("n", 20000, "jobs in a backlog, one in four of them a duplicate")
	reps := flags.Int("reps", 5, "repetitions; each measures every row once")
	only := flags.String("only", "", "rows to measure, as names or patterns like asynq*, separated by commas; what they are compared with comes along; empty: all")
	asJSON := flags.Bool("json", false, "print JSON instead of the table")
	smoke := flags.Bool("smoke", false, "only show that every row works: 400 jobs, once; the numbers mean nothing")
	dir := flags.String("dir", os.TempDir(), "where the servers' data lives while they run")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *smoke {
		*n, *reps = 400, 1
	}
	if flags.NArg() > 0 || *n < 4 || *n > 1e6 || *reps < 1 || *reps > 1000 {
		return errors.New("wrong usage: --n is 4 to 1000000, --reps 1 to 1000, and nothing follows the flags")
	}
	rows, err := chosen(rows(), *only)
	if err != nil {
		return err
	}
	machine, err := describe(rows)
	if err != nil {
		return err
	}
	samples, err := measureAll(ctx, rows, *n, *reps, *dir, stderr)
	lines := summarise(rows, samples)
	if len(lines) == 0 {
		return err
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return errors.Join(err, e.Encode(map[string]any{"machine": machine, "jobs": *n, "repetitions": *reps, "lines": lines, "samples": samples}))
	}
	fmt.Fprintf(stdout, "%d jobs, 1 in 4 a duplicate, no-op; %d repetitions, interleaved; median [min-max]\n", *n, *reps)
	fmt.Fprintf(stdout, "%s\nload average %s\n\n", machine, loads(samples).text("%.1f"))
	return errors.Join(err, printTable(stdout, lines))
}

// measureAll measures each row once in each repetition, beginning with another one each time. After a failure it returns what it has.
func measureAll(ctx context.Context, rows []row, n, reps int, parent string, progress io.Writer) (samples []sample, err error) {
	dir, err := os.MkdirTemp(parent, "peers-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // PostgreSQL, which is never run as root, has to get to its own directory inside
		return nil, err
	}
	secret := rand.Text()
	for rep := range reps {
		for i := range rows {
			r := rows[(i+rep)%len(rows)]
			s, err := measure(ctx, r, n, rep, dir, secret)
			if ctx.Err() != nil {
				return samples, errors.New("stopped")
			}
			if err != nil {
				return samples, fmt.Errorf("%s: %w", r.name, err)
			}
			fmt.Fprintf(progress, "%d/%d %-24s %8.0f jobs/s %7.2f CPU s/100k\n", rep+1, reps, r.name, s.rate(), s.cpu())
			samples = append(samples, s)
		}
	}
	return samples, nil
}

// task is what a worker process is told.
type task struct {
	Row    string
	N      int
	Seed   uint64
	Dir    string
	Server endpoint
}

// measure runs a row once: a new server with no data, and a new process that works.
func measure(ctx context.Context, r row, n, rep int, parent, secret string) (s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, rowTime)
	defer cancel()
	dir, err := os.MkdirTemp(parent, r.name+"-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	srv, err := r.start(ctx, dir, secret)
	if err != nil {
		return s, err
	}
	defer srv.stop()
	before := load()
	cmd, err := again(workOnce, task{r.name, n, uint64(rep), dir, srv.endpoint})
	if err != nil {
		return s, err
	}
	out, err := output(ctx, cmd)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, fmt.Errorf("%w: %.200q", err, out)
	}
	s.Rep, s.Load = rep, before
	return s, nil
}

// output runs a process to its end, or kills it when ctx ends or this process does.
func output(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	if err := cmd.Wait(); err != nil {
		text := bytes.TrimSpace(problems.Bytes())
		return nil, fmt.Errorf("%w: %s", err, text[:min(len(text), 2000)])
	}
	return out.Bytes(), nil
}

// runTask is that process: it hands the backlog over, works it, and prints a sample.
func runTask(ctx context.Context, in io.Reader, out io.Writer) error {
	var t task
	if err := json.NewDecoder(in).Decode(&t); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rowTime)
	defer cancel()
	for _, r := range rows() {
		if r.name != t.Row {
			continue
		}
		j := newJob(t)
		if err := r.work(ctx, j); err != nil {
			return err
		}
		from, to := j.meter.from, j.meter.to
		return json.NewEncoder(out).Encode(sample{
			Row: t.Row, Jobs: t.N, Duplicates: int(j.again.Load()), Seconds: to.at.Sub(from.at).Seconds(),
			ClientCPU: (to.client - from.client).Seconds(), ServerCPU: (to.servers - from.servers).Seconds(),
			ClientRSS: j.meter.clientMemory, ServerRSS: j.meter.serverMemory,
		})
	}
	return fmt.Errorf("there is no row %q", t.Row)
}
