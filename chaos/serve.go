package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// serverSettings is what a server process is told.
type serverSettings struct {
	Name   string
	Port   int // of clients
	Routes int // port of the other servers; 0: there are none
	Peers  []int
	Dir    string
	Sync   bool
}

// What a server process is told while it runs: its JetStream store is full from now on, or it has room again.
const (
	full = "full"
	room = "room"
)

// Serve is a server process: nats-server with JetStream on loopback. It prints "ready" when it serves, and ends when ctx does, or
// the standard input.
func Serve(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	var s serverSettings
	words := make(chan string)
	ctx, err := settle(ctx, in, &s, func(word string) { words <- word })
	if err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: s.Name, Host: "127.0.0.1", Port: s.Port, NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: s.Dir, SyncAlways: s.Sync, JetStreamMaxStore: 1 << 50,
	}
	if s.Routes != 0 { // clients must not learn the way past the proxies
		opts.Cluster = server.ClusterOpts{Name: "chaos", Host: "127.0.0.1", Port: s.Routes, NoAdvertise: true}
		var routes []string
		for _, port := range s.Peers {
			routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
		}
		opts.Routes = server.RoutesFromStr(strings.Join(routes, ","))
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	srv.SetLogger(serverLog{log}, false, false)
	srv.Start()
	defer srv.WaitForShutdown()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(30 * time.Second) {
		return errors.New("the server does not accept connections; its log says why")
	}
	fmt.Fprintln(out, "ready")
	for {
		select {
		case <-ctx.Done():
			return nil
		case word := <-words:
			if err := limit(srv, word == full); err != nil {
				log.Error("set the limit of the store", "word", word, "err", err)
			}
		}
	}
}

// limit makes the account's JetStream store seem full, whatever it holds, or takes the limit away.
func limit(srv *server.Server, full bool) error {
	limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1}
	if full {
		limits.MaxStore = 1
	}
	return srv.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits})
}

// serverLog passes the server's log on.
type serverLog struct{ to *slog.Logger }

func (l serverLog) Fatalf(format string, v ...any)  { l.to.Error(fmt.Sprintf(format, v...)) }
func (l serverLog) Errorf(format string, v ...any)  { l.to.Error(fmt.Sprintf(format, v...)) }
func (l serverLog) Warnf(format string, v ...any)   { l.to.Warn(fmt.Sprintf(format, v...)) }
func (l serverLog) Noticef(format string, v ...any) { l.to.Info(fmt.Sprintf(format, v...)) }
func (l serverLog) Debugf(string, ...any)           {}
func (l serverLog) Tracef(string, ...any)           {}
