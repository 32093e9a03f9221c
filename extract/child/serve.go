package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/guyline/guyline/extract/limits"
	"github.com/guyline/guyline/extract/pdf"
)

const (
	maxMemory = 1 << 30 // RLIMIT_DATA of a process, in bytes
	maxOpen   = 64      // descriptors
)

// Serve is the life of an extraction process: it confines the process that calls it, prepares the PDF engine with
// cacheDir (empty = none) and answers requests on standard input, one at a time, until ctx ends or the worker is gone.
func Serve(ctx context.Context, cacheDir string) error {
	conn, err := confine()
	if err != nil {
		return fmt.Errorf("child: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	engine, err := pdf.Open(ctx, cacheDir)
	if err == nil { // so its cache is warm, and no file need be written any more
		err = limits.Limits{FileSize: -1}.Apply()
	}
	if err != nil {
		return errors.Join(err, say(conn, answer{Error: newRefusal(err)}))
	}
	for err = say(conn, answer{}); err == nil; {
		err = next(ctx, conn, engine)
	}
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("child: %w", err)
}

// confine limits this process and returns its end of the connection.
func confine() (*link, error) {
	if err := limits.CloseInherited(2); err != nil {
		return nil, err
	}
	if err := (limits.Limits{Data: maxMemory, Files: maxOpen}).Apply(); err != nil {
		return nil, err
	}
	return inherited()
}

// next answers one request.
func next(ctx context.Context, conn *link, engine *pdf.Engine) error {
	req, f, err := conn.receive()
	if err != nil {
		return err
	}
	defer f.Close()
	// The last net, under the engine's limit and the pool's: two threads, each for as long as the pool waits.
	if err := limits.AllowCPU(2 * (req.Limit + grace)); err != nil {
		return err
	}
	a := answer{ID: req.ID}
	doc, err := engine.Inspect(ctx, f, req.Size, req.Limit)
	if err != nil {
		a.Error = newRefusal(err)
	} else {
		a.Document = &doc
	}
	return say(conn, a)
}

func say(w io.Writer, a answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
