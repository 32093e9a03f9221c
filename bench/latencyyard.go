package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/consumer"
	"github.com/guyline/guyline/internal/part"
	"github.com/guyline/guyline/report"
	"github.com/guyline/guyline/stream"
)

// smallStore is how many reports are done in the store that start-up is measured on.
const smallStore = 100

// yard is a directory with a store and, for `guyline run`, files.
type yard struct {
	cfg LatencyConfig
	dir string
}

func (c LatencyConfig) openYard(ctx context.Context, reports int) (_ *yard, err error) {
	dir, err := os.MkdirTemp("", "guyline-bench-")
	if err != nil {
		return nil, err
	}
	y := &yard{c, dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.close())
		}
	}()
	return y, y.visit(ctx, func(js jetstream.JetStream) error {
		if err := consumer.Setup(ctx, js, consumer.DefaultConfig().Queues); err != nil {
			return err
		}
		b := &bed{cfg: c.consumerConfig(0), worker: js, publisher: js, dir: dir}
		var j journeys
		all := j.expect(reports)
		if err := b.publish(ctx, reports, j.begin); err != nil || reports == 0 {
			return err
		}
		b.cfg.Queues = consumer.DefaultConfig().Queues
		working, stop, err := b.work(ctx, noop, j.observe)
		if err != nil {
			return err
		}
		_, _, wrong := j.times()
		return errors.Join(await(working, all, "the reports of the small store"), stop(), wrong)
	})
}

func (y *yard) close() error { return os.RemoveAll(y.dir) }

// visit opens the store for a moment.
func (y *yard) visit(ctx context.Context, do func(jetstream.JetStream) error) (err error) {
	p, err := openPlace(ctx, Config{Mode: Embedded, Sync: y.cfg.Place.Sync, Dir: filepath.Join(y.dir, "data")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	nc, err := p.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return do(js)
}

// submit publishes one report about a file.
func (y *yard) submit(ctx context.Context, file string) error {
	return y.visit(ctx, func(js jetstream.JetStream) error {
		e := report.Event{SiteID: "BENCH-START", SourceURI: file}
		duplicate, err := stream.Publish(ctx, js, e, fmt.Appendf(nil, `{"site_id":%q,"source_uri":%q}`, e.SiteID, e.SourceURI))
		if err == nil && duplicate {
			err = fmt.Errorf("report %s is a duplicate", file)
		}
		return err
	})
}

// run starts this program, hands next each line that it prints, and interrupts it when next says so. It returns when the process was started.
// Of `guyline run` the lines are those of its log.
func (y *yard) run(ctx context.Context, next func(pid int, started time.Time, line []byte) (over bool), args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir, cmd.SysProcAttr = y.dir, part.Attributes(true)
	cmd.Stdin = strings.NewReader("{}\n") // the settings of a part that has none
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GUYLINE_") }),
		"GUYLINE_DATA_DIR="+filepath.Join(y.dir, "data"), "GUYLINE_SYNC="+string(y.cfg.Place.Sync), "GUYLINE_FILE_ROOT="+y.dir,
		"GUYLINE_LOG_FORMAT=json", "GUYLINE_CACHE_DIR="+y.cfg.CacheDir)
	lines, err := cmd.StdoutPipe()
	if args[0] != WorkerCommand {
		lines, err = cmd.StderrPipe()
	}
	if err != nil {
		return err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	over, last := false, ""
	for s := bufio.NewScanner(lines); !over && s.Scan(); {
		last = s.Text()
		over = next(cmd.Process.Pid, started, s.Bytes())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil { // elsewhere than on Unix, or it has ended
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, lines)
	err = cmd.Wait()
	switch {
	case over:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("`guyline %s` has ended too early (%w): %s", args[0], err, last)
}
