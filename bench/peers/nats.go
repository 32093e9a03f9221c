package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsSettings is what a NATS server process is told.
type natsSettings struct {
	Dir    string
	Port   string
	Token  string
	Always bool // fsync every write, from a hang-up signal on; before, and else, all of them once a second
}

// startNATS starts this program again as a NATS server, of the version that the product embeds.
func startNATS(always bool) func(ctx context.Context, dir, secret string) (*server, error) {
	return func(ctx context.Context, dir, secret string) (*server, error) {
		addr, port, err := freePort()
		if err != nil {
			return nil, err
		}
		cmd, err := again(serveNATS, natsSettings{filepath.Join(dir, "data"), port, secret, always})
		if err != nil {
			return nil, err
		}
		s, err := launch(cmd, dir, endpoint{Addr: addr, Secret: secret}, syscall.SIGKILL)
		if err != nil {
			return nil, err
		}
		return s, s.listening(ctx, dir)
	}
}

// runNATS is that process.
func runNATS(in io.Reader) error {
	var cfg natsSettings
	if err := json.NewDecoder(in).Decode(&cfg); err != nil {
		return err
	}
	port, err := strconv.Atoi(cfg.Port)
	if err != nil {
		return err
	}
	synced := make(chan os.Signal, 1)
	signal.Notify(synced, syscall.SIGHUP)
	opts := natsserver.Options{
		Host: "127.0.0.1", Port: port, Authorization: cfg.Token, NoSigs: true,
		JetStream: true, StoreDir: cfg.Dir, JetStreamMaxStore: 1 << 50, SyncInterval: time.Second,
	}
	s, err := serve(opts)
	if err != nil {
		return err
	}
	if cfg.Always {
		<-synced
		s.Shutdown()
		s.WaitForShutdown()
		opts.SyncAlways = true
		if s, err = serve(opts); err != nil {
			return err
		}
	}
	s.WaitForShutdown()
	return nil
}

func serve(opts natsserver.Options) (*natsserver.Server, error) {
	s, err := natsserver.NewServer(&opts)
	if err != nil {
		return nil, err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return nil, errors.New("the server is not ready after 20 s")
	}
	return s, nil
}

// syncAlways makes a server that was started for that sync every write. The backlog is there by then: publishing it would take longer than the work.
func syncAlways(ctx context.Context, nc *nats.Conn, j *job) error {
	before := nc.ConnectedServerId()
	if err := syscall.Kill(j.Server.Pid, syscall.SIGHUP); err != nil {
		return err
	}
	for nc.Status() != nats.CONNECTED || nc.ConnectedServerId() == before {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the server is not back: %w", ctx.Err())
		}
	}
	return nil
}

// again is a command that starts this program in one of its hidden modes, with settings on its standard input.
func again(mode string, settings any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	in, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, mode)
	cmd.Stdin = bytes.NewReader(in)
	return cmd, nil
}

// connectNATS connects, with patience for a busy machine.
func connectNATS(j *job) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := nats.Connect("nats://"+j.Server.Addr, nats.Token(j.Server.Secret), nats.Timeout(10*time.Second), nats.ReconnectWait(50*time.Millisecond), nats.MaxReconnects(-1))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) { _ = j.fail(fmt.Errorf("publish: %w", err)) }))
	return nc, js, err
}

// publish hands the backlog over, without message ids: or the server would drop the duplicates before anybody saw them.
func publish(ctx context.Context, js jetstream.JetStream, j *job, subject func(event) string) error {
	for i, e := range j.events {
		if _, err := js.PublishAsync(subject(e), j.body(i), jetstream.WithStallWait(30*time.Second)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return j.error()
	case <-ctx.Done():
		return ctx.Err()
	}
}
