package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/guyline/guyline/extract"
	"github.com/guyline/guyline/report"
)

func (a *app) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE...",
		Short: "Say what a worker would find in these files",
		Long: "Say what a worker would find in these files: accepted, or the kind and code of the error. It needs no store, and\n" +
			"GUYLINE_FILE_ROOT does not matter. Exit code 3: at least one file would be refused.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.inspect(cmd, args) },
	}
}

// finding is what there is to say about one file. Either Result or Kind, Code and Reason are empty.
type finding struct {
	File   string        `json:"file"`
	Result report.Result `json:"result,omitzero"`
	Kind   string        `json:"kind,omitempty"`
	Code   report.Code   `json:"code,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

func (a *app) inspect(cmd *cobra.Command, files []string) error {
	paths := make([]string, len(files))
	for i, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return fmt.Errorf("inspect %s: %w", file, err)
		}
		paths[i] = path
		if real, err := filepath.EvalSymlinks(path); err == nil {
			paths[i] = real // the person at the terminal may follow links; a worker stays below its root
		}
	}
	cfg := a.cfg.Extract()
	cfg.Source.FileRoot = filepath.VolumeName(paths[0]) + string(os.PathSeparator)
	x, err := a.openExtractor(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer x.Close()
	t := newTable(a.stdout, "FILE", "VERDICT", "PAGES", "BYTES", "SAYS")
	refused := false
	for i, file := range files {
		f := finding{File: file}
		result, err := x.Extract(cmd.Context(), report.Event{SourceURI: paths[i]})
		switch {
		case cmd.Context().Err() != nil:
			return err
		case err != nil:
			refused = true
			e := report.Classify(err)
			if inner, ok := errors.AsType[*report.Error](err); ok {
				err = inner // the file is named already
			}
			f.Kind, f.Code, f.Reason = e.Kind.String(), e.Code, report.Clean(err.Error())
		default:
			f.Result = result
		}
		if !a.json {
			t.row(f.cells()...)
		} else if err := a.printJSON(f); err != nil {
			return err
		}
	}
	if !a.json {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if refused {
		return errPerson
	}
	return nil
}

// cells are the columns for a person. A command's result is shown as it is.
func (f finding) cells() []string {
	if f.Code != "" {
		return []string{f.File, f.Kind + " " + string(f.Code), "", "", f.Reason}
	}
	var facts extract.Facts
	if err := json.Unmarshal(f.Result, &facts); err != nil || facts.Pages == 0 {
		return []string{f.File, "accepted", "", "", string(f.Result)}
	}
	says := "PDF " + facts.PDFVersion
	if facts.NeedsOCR {
		says += ", needs OCR"
	}
	if facts.Encrypted {
		says += ", encrypted"
	}
	if text := cmp.Or(facts.Title, facts.FirstPageText); text != "" {
		says += fmt.Sprintf(": %.80s", text)
	}
	return []string{f.File, "accepted", fmt.Sprint(facts.Pages), fmt.Sprint(facts.Bytes), says}
}
