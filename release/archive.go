package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is one file of an archive: a file of this machine, or data; or a folder, by a slash at the end.
type entry struct {
	name string
	mode int64
	file string
	data []byte
}

// writeArchive writes a program with its licence, as krew and Homebrew want it: without a folder above.
func (r *release) writeArchive(ctx context.Context, file string, p program, on platform) error {
	binary, err := r.binary(ctx, p.name, on)
	if err != nil {
		return err
	}
	entries := []entry{
		{name: p.name, mode: 0o755, file: binary},
		{name: "LICENSE", mode: 0o644, file: filepath.Join(r.source, "LICENSE")},
	}
	return r.pack(file, entries)
}

// pack writes entries into a compressed archive.
func (r *release) pack(file string, entries []entry) error {
	return create(file, func(w io.Writer) error {
		return compress(w, func(w io.Writer) error { return writeTar(w, entries, r.date) })
	})
}

// writeTar writes entries sorted by name, of root, with one time.
func writeTar(w io.Writer, entries []entry, date time.Time) error {
	tw := tar.NewWriter(w)
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for _, e := range entries {
		if err := e.write(tw, date); err != nil {
			return err
		}
	}
	return tw.Close()
}

func (e entry) write(tw *tar.Writer, date time.Time) error {
	if strings.HasSuffix(e.name, "/") {
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: e.name, Mode: e.mode, ModTime: date, Format: tar.FormatUSTAR})
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, ModTime: date, Size: int64(len(e.data)), Format: tar.FormatUSTAR}
	if e.file == "" {
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		_, err := tw.Write(e.data)
		return err
	}
	f, err := os.Open(e.file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := tw.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}

// compress pipes what write writes through gzip, whose header has neither a name nor a time.
func compress(w io.Writer, write func(io.Writer) error) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := write(zw); err != nil {
		return err
	}
	return zw.Close()
}

func create(file string, write func(io.Writer) error) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
