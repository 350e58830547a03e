package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/vuln/scan"
)

// vulnerabilities has govulncheck look for known vulnerabilities in what packages of a checkout call. The error names those that
// the OpenVEX document does not excuse. Database is a URL, of a folder with file://; empty: https://vuln.go.dev.
//
// A database that cannot be read is an error, too: nothing is known then.
func vulnerabilities(ctx context.Context, source, database string, doc vexDocument, packages ...string) error {
	args := []string{"-C", source, "-format", "json"}
	if database != "" {
		args = append(args, "-db", database)
	}
	var out, failure bytes.Buffer
	cmd := scan.Command(ctx, append(args, packages...)...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &failure, os.Environ()
	err := cmd.Start()
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("look for vulnerabilities: %w %s: name a copy of the database with --vuln-db file:///FOLDER, or release "+
			"without this check with --no-vuln-check", err, strings.TrimSpace(failure.String()))
	}
	called, err := readVulnerabilities(&out)
	if err != nil {
		return fmt.Errorf("read what govulncheck found: %w", err)
	}
	var found []error
	for _, v := range called {
		if !doc.excuses(v.names) {
			found = append(found, fmt.Errorf("%s in %s@%s: fixed in %s", v.names[0], v.module, v.version, v.fixed))
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("look for vulnerabilities: update these modules, or say in release/vex why they do not matter:\n%w", errors.Join(found...))
	}
	return nil
}

// checkVulnerabilities looks at the three programs, with the statements of release/vex.
func (r *release) checkVulnerabilities(ctx context.Context, database string) error {
	doc, _, err := readVEX()
	if err != nil {
		return err
	}
	return vulnerabilities(ctx, r.source, database, doc, "./cmd/...")
}

// vulnerability is one whose code is called. Names are its ID in Go's database and those in others.
type vulnerability struct {
	names                  []string
	module, version, fixed string
}

// readVulnerabilities reads the stream of govulncheck's JSON (golang.org/x/vuln/internal/govulncheck). A finding whose trace
// begins with a function is one of code that is called; the others are in modules that are required only.
func readVulnerabilities(in io.Reader) ([]vulnerability, error) {
	aliases := map[string][]string{}
	var list []vulnerability
	for decoder := json.NewDecoder(in); ; {
		var message struct {
			OSV *struct {
				ID      string   `json:"id"`
				Aliases []string `json:"aliases"`
			} `json:"osv"`
			Finding *struct {
				OSV          string `json:"osv"`
				FixedVersion string `json:"fixed_version"`
				Trace        []struct {
					Module   string `json:"module"`
					Version  string `json:"version"`
					Function string `json:"function"`
				} `json:"trace"`
			} `json:"finding"`
		}
		err := decoder.Decode(&message)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if o := message.OSV; o != nil {
			aliases[o.ID] = o.Aliases
		}
		f := message.Finding
		if f == nil || len(f.Trace) == 0 || f.Trace[0].Function == "" ||
			slices.ContainsFunc(list, func(v vulnerability) bool { return v.names[0] == f.OSV }) {
			continue
		}
		list = append(list, vulnerability{
			names: append([]string{f.OSV}, aliases[f.OSV]...), module: f.Trace[0].Module, version: f.Trace[0].Version,
			fixed: f.FixedVersion,
		})
	}
	return list, nil
}
