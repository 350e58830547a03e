package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// statement is an in-toto statement, version 1: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
type statement struct {
	Type          string       `json:"_type"`
	Subject       []descriptor `json:"subject"`
	PredicateType string       `json:"predicateType"`
	Predicate     provenance   `json:"predicate"`
}

// descriptor names something by its digest.
type descriptor struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// provenance is a predicate of SLSA: https://slsa.dev/spec/v1.0/provenance
type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []descriptor      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

const (
	statementType  = "https://in-toto.io/Statement/v1"
	provenanceType = "https://slsa.dev/provenance/v1"
	howReleased    = repository + "/blob/main/docs/contributing/releasing.md"
)

// writeProvenance says how every file so far was made. It has no times: the same commit gives the same statement.
func (r *release) writeProvenance(file string) error {
	s := statement{Type: statementType, PredicateType: provenanceType}
	names, err := publishedFiles(r.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		sum, err := digest(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, descriptor{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	built := &s.Predicate.BuildDefinition
	built.BuildType = howReleased + "#make-release"
	built.ExternalParameters = map[string]string{"repository": repository, "version": r.version}
	built.InternalParameters = map[string]string{"go": r.goVersion}
	built.ResolvedDependencies = []descriptor{{
		URI: "git+" + repository + "@refs/tags/" + r.version, Digest: map[string]string{"gitCommit": r.commit},
	}}
	for _, sums := range []string{"go.sum", "release/go.sum"} { // the modules, each with its digest
		sum, err := digest(filepath.Join(r.source, filepath.FromSlash(sums)))
		if err != nil {
			return err
		}
		built.ResolvedDependencies = append(built.ResolvedDependencies, descriptor{Name: sums, Digest: map[string]string{"sha256": sum}})
	}
	s.Predicate.RunDetails.Builder.ID = cmp.Or(r.builder, howReleased+"#by-hand")
	return writeJSON(file, s)
}

// filesBelow are all files of a folder, with their paths below it, sorted; the one that is being written is not among them.
func filesBelow(dir string) ([]string, error) {
	entries, err := entriesBelow(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.name)
	}
	slices.SortFunc(names, strings.Compare)
	return names, nil
}
