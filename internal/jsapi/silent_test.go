package jsapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/guyline/guyline/internal/jsapi"
	"github.com/guyline/guyline/internal/natstest"
)

// A scan whose server goes away ends with its context, also while the client library tries to begin anew.
func TestScanEndsWithItsContext(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	fill(t, js)
	publishMany(t, js, 3000, "s.a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		n := 0
		for _, err := range jsapi.Scan(ctx, js, "S", ">", false) {
			if err != nil {
				ended <- err
				return
			}
			if n++; n == 1 {
				close(began)
				<-ctx.Done() // by now the server is gone
			}
		}
		ended <- nil
	}()
	<-began
	srv.Stop(t)
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a scan that was cut off has no error")
		}
	case <-time.After(time.Minute):
		t.Error("the scan goes on without its context")
	}
}

// A request that is never answered, here for want of permission, ends by itself.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.API.STREAM.INFO.>"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			srv, err := server.NewServer(&server.Options{
				Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
				Users: []*server.User{
					{Username: "admin", Password: "x"},
					{Username: "limited", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{denied}}}},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			srv.Start()
			t.Cleanup(func() {
				srv.Shutdown()
				srv.WaitForShutdown()
			})
			as := func(user string) jetstream.JetStream {
				nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo(user, "x"), nats.Timeout(time.Minute), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(nc.Close)
				js, err := jetstream.New(nc)
				if err != nil {
					t.Fatal(err)
				}
				return js
			}
			admin := as("admin")
			fill(t, admin)
			publishMany(t, admin, 3, "s.a")
			ctx, cancel := context.WithCancel(t.Context()) // without a deadline, as most are
			defer cancel()
			defer time.AfterFunc(time.Minute, cancel).Stop()
			read := 0
			for _, err := range jsapi.Scan(ctx, as("limited"), "S", ">", false) {
				if err != nil && (!errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil) {
					t.Errorf("the error is %v", err)
				}
				if err != nil {
					return
				}
				read++
			}
			if read != 3 { // without pulls the leader is asked for each
				t.Errorf("%d messages and no error", read)
			}
		})
	}
}
