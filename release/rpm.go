package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2/rpm"
	"github.com/sassoftware/go-rpmutils"
)

// rpmRepository makes the folder of a release a repository of dnf: repomd.xml, and the three lists that it names. A release has
// one package for each architecture, so lists of files and of changes have those.
func rpmRepository(r *release) []artefact {
	list := []artefact{
		{"repodata/primary.xml.gz", func(_ context.Context, r *release, file string) error { return r.writeRPMPrimary(file) }},
		{"repodata/filelists.xml.gz", func(_ context.Context, r *release, file string) error { return r.writeRPMFiles(file) }},
		{"repodata/other.xml.gz", func(_ context.Context, r *release, file string) error { return r.writeRPMOther(file) }},
		{"repodata/repomd.xml", func(_ context.Context, r *release, file string) error { return r.writeRepomd(file) }},
	}
	if r.openPGP != nil {
		list = append(list, artefact{"repodata/repomd.xml.asc", func(_ context.Context, r *release, file string) error {
			return r.openPGP.detachSign(filepath.Join(r.dir, "repodata", "repomd.xml"), file)
		}})
	}
	return append(list, artefact{r.repodataName(), func(_ context.Context, r *release, file string) error { return r.writeRepodata(file) }})
}

// rpmPackage is what the lists say of a package.
type rpmPackage struct {
	name, sum, arch string
	version         rpmVersion
	size            int64
	header          *rpmutils.RpmHeader
	files           []rpmutils.FileInfo
}

type rpmVersion struct {
	Epoch string `xml:"epoch,attr"`
	Ver   string `xml:"ver,attr"`
	Rel   string `xml:"rel,attr"`
}

func (r *release) rpmPackages() ([]rpmPackage, error) {
	var list []rpmPackage
	for _, on := range nodes() {
		p, err := readRPM(r.dir, r.packageName(rpm.DefaultRPM, on))
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

func readRPM(dir, name string) (rpmPackage, error) {
	p := rpmPackage{name: name}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return p, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return p, err
	}
	p.size = info.Size()
	if p.header, err = rpmutils.ReadHeader(f); err != nil {
		return p, fmt.Errorf("read the header of %s: %w", name, err)
	}
	nevra, err := p.header.GetNEVRA()
	if err != nil {
		return p, fmt.Errorf("read the version of %s: %w", name, err)
	}
	p.arch, p.version = nevra.Arch, rpmVersion{nevra.Epoch, nevra.Version, nevra.Release}
	if p.files, err = p.header.GetFiles(); err != nil {
		return p, fmt.Errorf("read the files of %s: %w", name, err)
	}
	p.sum, err = digest(filepath.Join(dir, name))
	return p, err
}

// text is a value of the header, empty where it has none.
func (p rpmPackage) text(tag int) string {
	value, err := p.header.GetString(tag)
	if err != nil {
		return ""
	}
	return value
}

func writeXMLGz(file string, value any) error {
	data, err := encodeXML(value)
	if err != nil {
		return err
	}
	packed, err := gzipped(data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, packed, 0o644)
}

func encodeXML(value any) ([]byte, error) {
	data, err := xml.MarshalIndent(value, "", " ")
	return append([]byte(xml.Header), append(data, '\n')...), err
}

func (r *release) writeRepomd(file string) error {
	type sum struct {
		Type  string `xml:"type,attr"`
		Value string `xml:",chardata"`
	}
	type list struct {
		Type     string `xml:"type,attr"`
		Checksum sum    `xml:"checksum"`
		Open     sum    `xml:"open-checksum"`
		Location struct {
			Href string `xml:"href,attr"`
		} `xml:"location"`
		Timestamp int64 `xml:"timestamp"`
		Size      int   `xml:"size"`
		OpenSize  int   `xml:"open-size"`
	}
	repomd := struct {
		XMLName  xml.Name `xml:"repomd"`
		Space    string   `xml:"xmlns,attr"`
		Revision int64    `xml:"revision"`
		Data     []list   `xml:"data"`
	}{Space: "http://linux.duke.edu/metadata/repo", Revision: r.date.Unix()}
	for _, kind := range []string{"primary", "filelists", "other"} {
		href := "repodata/" + kind + ".xml.gz"
		packed, err := os.ReadFile(filepath.Join(r.dir, filepath.FromSlash(href)))
		if err != nil {
			return err
		}
		open, err := gunzipped(packed)
		if err != nil {
			return fmt.Errorf("read %s: %w", href, err)
		}
		l := list{Type: kind, Timestamp: r.date.Unix(), Size: len(packed), OpenSize: len(open)}
		l.Checksum = sum{"sha256", fmt.Sprintf("%x", sha256.Sum256(packed))}
		l.Open = sum{"sha256", fmt.Sprintf("%x", sha256.Sum256(open))}
		l.Location.Href = href
		repomd.Data = append(repomd.Data, l)
	}
	data, err := encodeXML(repomd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// isProgram says whether dnf needs the path in the first list: files that others may depend on.
func isProgram(path string) bool {
	return strings.HasPrefix(path, "/usr/bin/") || strings.HasPrefix(path, "/etc/")
}

// repodataFolder is what dnf reads of a mirror. A GitHub release has no folders: its files are published, and listed in SHA256SUMS,
// as one archive.
const repodataFolder = "repodata"

func (r *release) repodataName() string { return "ccmadm_" + r.version + "_repodata.tar.gz" }

func (r *release) writeRepodata(file string) error {
	entries, err := entriesBelow(filepath.Join(r.dir, repodataFolder))
	if err != nil {
		return err
	}
	for i := range entries {
		entries[i].name = repodataFolder + "/" + entries[i].name
	}
	return r.pack(file, entries)
}

// publishedFiles are all files of a folder but those that the archive has.
func publishedFiles(dir string) ([]string, error) {
	names, err := filesBelow(dir)
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, repodataFolder+"/") }), err
}

// verifyRepodata compares the folder, where it is there, with the archive, which is listed.
func verifyRepodata(dir string) error {
	entries, err := entriesBelow(filepath.Join(dir, repodataFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*_repodata.tar.gz"))
	if err != nil || len(archives) != 1 {
		return errors.Join(err, fmt.Errorf("find *_repodata.tar.gz: want 1, found %d", len(archives)))
	}
	archive := filepath.Base(archives[0])
	packed, err := digestsIn(archives[0])
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	var found []error
	for _, e := range entries {
		name := repodataFolder + "/" + e.name
		got, err := digest(e.file)
		switch want := packed[name]; {
		case err != nil:
			found = append(found, err)
		case want == "":
			found = append(found, fmt.Errorf("%s: not in %s", name, archive))
		case got != want:
			found = append(found, fmt.Errorf("%s: not as in %s", name, archive))
		}
		delete(packed, name)
	}
	for name := range packed {
		found = append(found, fmt.Errorf("%s: not in the folder, but in %s", name, archive))
	}
	return errors.Join(found...)
}

// digestsIn are the digests of the files in an archive.
func digestsIn(file string) (map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return sums, nil
		}
		if err != nil {
			return nil, err
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, tr); err != nil {
			return nil, err
		}
		sums[header.Name] = hex.EncodeToString(hash.Sum(nil))
	}
}
