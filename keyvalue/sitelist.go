package keyvalue

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/guyline/guyline/report"
)

// ReadSites reads a list of sites, each once and in its order: JSON lines with a site_id if the first character is a
// brace, else CSV with a column site_id. Anything wrong in it is an error that names the line, as an import is all or nothing.
func ReadSites(r io.Reader) ([]string, error) {
	in := bufio.NewReader(r)
	if bom, _ := in.Peek(3); bytes.Equal(bom, []byte("\ufeff")) {
		in.Discard(3)
	}
	var sites []string
	seen := map[string]bool{}
	add := func(line int, site string) error {
		if err := report.ValidateSite(site); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if !seen[site] {
			sites = append(sites, site)
		}
		seen[site] = true
		return nil
	}
	var err error
	if first, _ := in.Peek(1); len(first) == 1 && first[0] == '{' {
		err = sitesFromJSON(in, add)
	} else {
		err = sitesFromCSV(in, add)
	}
	if err == nil && len(sites) == 0 {
		err = errors.New("it names no site")
	}
	return sites, err
}

func sitesFromJSON(in io.Reader, add func(int, string) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, report.MaxMessage)
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var row struct {
			SiteID string `json:"site_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := add(n, row.SiteID); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n, err)
	}
	return nil
}

func sitesFromCSV(in io.Reader, add func(int, string) error) error {
	r := csv.NewReader(in)
	header, err := r.Read()
	if err == io.EOF {
		return errors.New("it is empty")
	}
	column := slices.Index(header, "site_id")
	if err != nil || column < 0 {
		return errors.New("line 1 is not a CSV header with a column site_id")
	}
	for {
		fields, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := r.FieldPos(column)
		if err := add(line, fields[column]); err != nil {
			return err
		}
	}
}
