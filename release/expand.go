package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed files
var templates embed.FS

// expand fills in a file of release/files. Between << and >> stand the fields below, and the functions platforms, url and
// sum, of the archives of ccmadm.
func expand(name string, r *release) ([]byte, error) {
	archive := func(os, arch string) string { return r.archiveName("ccmadm", platform{os, arch}) }
	t, err := template.New(name).Delims("<<", ">>").Option("missingkey=error").Funcs(template.FuncMap{
		"url": func(os, arch string) string {
			return fmt.Sprintf("%s/releases/download/%s/%s", repository, r.version, archive(os, arch))
		},
		"platforms": func() map[string][]string {
			list := map[string][]string{}
			for _, on := range programs()[0].platforms {
				list[on.os] = append(list[on.os], on.arch)
			}
			return list
		},
		"sum": func(os, arch string) (string, error) { return digest(filepath.Join(r.dir, archive(os, arch))) },
	}).ParseFS(templates, "files/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]string{
		"Version": r.version, "Number": r.version[1:], "Year": r.date.Format("2006"), "Repository": repository,
	})
	return out.Bytes(), err
}

func expanded(name string) func(context.Context, *release, string) error {
	return func(_ context.Context, r *release, file string) error {
		text, err := expand(name, r)
		if err != nil {
			return err
		}
		return os.WriteFile(file, text, 0o644)
	}
}
