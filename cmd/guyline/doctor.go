package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/guyline/guyline/doctor"
	"github.com/guyline/guyline/embedded"
	"github.com/guyline/guyline/report"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the server, its streams and consumers",
		Long: "Find what is wrong with the server, its streams and consumers, what follows from it and what to do. It changes nothing.\n\n" +
			"It looks with the permissions of this user: run it as a worker does, and what a worker lacks is found too.\n" +
			"Exit codes: 0 nothing needs a person, 1 it could not look, 3 something needs one.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.examine(cmd.Context()) },
	}
}

func (a *app) examine(ctx context.Context) error {
	var heard denials
	s, err := a.connect(ctx, reads, nats.ErrorHandler(heard.hear))
	if err != nil {
		return err
	}
	defer s.Close()
	facts, err := doctor.Look(ctx, s.js, a.facts(ctx, s), heard.all)
	switch denied := heard.all(); {
	case err != nil && len(denied) > 0:
		return fmt.Errorf("look at the server: %w: this user may not %s to %s", err, denied[0].Act, denied[0].Subject)
	case err != nil:
		return fmt.Errorf("look at the server: %w", hintJetStream(err))
	}
	return a.printDiagnosis(doctor.Examine(facts))
}

func (a *app) printDiagnosis(found []doctor.Finding) error {
	troubles, ours := 0, 0
	for _, f := range found {
		if f.Level == doctor.Trouble {
			troubles++
		}
		if f.Setup {
			ours++
		}
		if a.json {
			if err := a.printJSON(f); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(a.stdout, "%-8s %s\n", f.Level, report.Line(f.String(), maxLine)); err != nil {
			return err
		}
	}
	if !a.json {
		switch {
		case troubles == 0:
			fmt.Fprintln(a.stdout, "nothing needs a person")
		case ours == troubles:
			fmt.Fprintf(a.stdout, "%d in trouble: `guyline setup` repairs all of it\n", troubles)
		default:
			fmt.Fprintf(a.stdout, "%d in trouble: `guyline setup` repairs %d, a person must look at %d\n", troubles, ours, troubles-ours)
		}
	}
	if troubles > 0 {
		return errPerson
	}
	return nil
}

// unrepaired is what setup could not repair of the settings.
func (a *app) unrepaired(ctx context.Context, s *session) ([]doctor.Finding, error) {
	facts, err := doctor.Look(ctx, s.js, a.facts(ctx, s), func() []doctor.Denied { return nil })
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(doctor.Settings(facts), func(f doctor.Finding) bool { return f.Level != doctor.Trouble }), nil
}

// facts is what is known without a look at the server's streams.
func (a *app) facts(ctx context.Context, s *session) doctor.Facts {
	cfg := a.cfg.Consumer(version)
	f := doctor.Facts{Wanted: doctor.Wanted{
		Queues: cfg.Queues, Workers: cfg.Workers, LedgerSet: a.cfg.LedgerTTL.Set, LedgerTTL: a.cfg.LedgerTTL.Kept,
	}}
	here := func(address string, nc *nats.Conn) doctor.Server {
		return doctor.Server{Address: address, Name: nc.ConnectedServerName(), Version: nc.ConnectedServerVersion(), MaxPayload: nc.MaxPayload()}
	}
	if s.store != nil {
		f.Store = &doctor.Store{Dir: a.cfg.DataDir, LazySync: a.cfg.Sync == "interval", Remote: s.store.Remote()}
		if free, err := embedded.Free(a.cfg.DataDir); err == nil {
			f.Store.Free = &free
		} else {
			a.log.Debug("free disk not known", "err", err)
		}
		f.Servers = []doctor.Server{here("embedded server", s.nc)}
		return f
	}
	f.Servers = make([]doctor.Server, len(a.cfg.Servers()))
	var all sync.WaitGroup
	for i, address := range a.cfg.Servers() { // each by itself: the connection knows one of them
		all.Go(func() {
			shown := a.cfg.RedactAddress(address)
			nc, err := nats.Connect(address, append(a.connOptions(), nats.NoReconnect(), nats.IgnoreDiscoveredServers())...)
			if err != nil {
				f.Servers[i] = doctor.Server{Address: shown, Err: strings.TrimPrefix(err.Error(), "nats: ")}
				return
			}
			defer nc.Close()
			f.Servers[i] = here(shown, nc)
		})
	}
	all.Wait()
	return f
}

// denials is what the server did not permit. It is told in no answer: the connection alone hears it.
type denials struct {
	mu    sync.Mutex
	heard []doctor.Denied
}

func (d *denials) hear(_ *nats.Conn, _ *nats.Subscription, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := doctor.Denial(err); ok && !slices.Contains(d.heard, x) {
		d.heard = append(d.heard, x)
	}
}

func (d *denials) all() []doctor.Denied {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.heard)
}
