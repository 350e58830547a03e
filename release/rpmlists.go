package main

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"io"

	"github.com/sassoftware/go-rpmutils"
)

const (
	commonSpace    = "http://linux.duke.edu/metadata/common"
	rpmSpace       = "http://linux.duke.edu/metadata/rpm"
	filelistsSpace = "http://linux.duke.edu/metadata/filelists"
	otherSpace     = "http://linux.duke.edu/metadata/other"
)

// primary is one package in the list that dnf searches.
type primary struct {
	Type     string     `xml:"type,attr"`
	Name     string     `xml:"name"`
	Arch     string     `xml:"arch"`
	Version  rpmVersion `xml:"version"`
	Checksum struct {
		Type  string `xml:"type,attr"`
		PkgID string `xml:"pkgid,attr"`
		Value string `xml:",chardata"`
	} `xml:"checksum"`
	Summary     string `xml:"summary"`
	Description string `xml:"description"`
	Packager    string `xml:"packager"`
	URL         string `xml:"url"`
	Time        struct {
		File  int64 `xml:"file,attr"`
		Build int64 `xml:"build,attr"`
	} `xml:"time"`
	Size struct {
		Package   int64 `xml:"package,attr"`
		Installed int64 `xml:"installed,attr"`
		Archive   int64 `xml:"archive,attr"`
	} `xml:"size"`
	Location struct {
		Href string `xml:"href,attr"`
	} `xml:"location"`
	Format format `xml:"format"`
}

type format struct {
	License     string `xml:"rpm:license"`
	Vendor      string `xml:"rpm:vendor"`
	Group       string `xml:"rpm:group"`
	BuildHost   string `xml:"rpm:buildhost"`
	HeaderRange struct {
		Start int `xml:"start,attr"`
		End   int `xml:"end,attr"`
	} `xml:"rpm:header-range"`
	Provides struct {
		Entry rpmProvides `xml:"rpm:entry"`
	} `xml:"rpm:provides"`
	Files []string `xml:"file"`
}

type rpmProvides struct {
	Name  string `xml:"name,attr"`
	Flags string `xml:"flags,attr"`
	rpmVersion
}

func (r *release) writeRPMPrimary(file string) error {
	packages, err := r.rpmPackages()
	if err != nil {
		return err
	}
	list := struct {
		XMLName  xml.Name  `xml:"metadata"`
		Space    string    `xml:"xmlns,attr"`
		RPM      string    `xml:"xmlns:rpm,attr"`
		Number   int       `xml:"packages,attr"`
		Packages []primary `xml:"package"`
	}{Space: commonSpace, RPM: rpmSpace, Number: len(packages)}
	for _, p := range packages {
		one, err := r.primary(p)
		if err != nil {
			return err
		}
		list.Packages = append(list.Packages, one)
	}
	return writeXMLGz(file, list)
}

// primary describes a package. It requires nothing: the program is static, and its script needs a shell alone.
func (r *release) primary(p rpmPackage) (primary, error) {
	one := primary{Type: "rpm", Name: "ccmadm", Arch: p.arch, Version: p.version}
	one.Checksum.Type, one.Checksum.PkgID, one.Checksum.Value = "sha256", "YES", p.sum
	one.Summary, one.Description = p.text(rpmutils.SUMMARY), p.text(rpmutils.DESCRIPTION)
	one.Packager, one.URL = p.text(rpmutils.PACKAGER), p.text(rpmutils.URL)
	one.Time.File, one.Time.Build = r.date.Unix(), r.date.Unix()
	installed, err := p.header.InstalledSize()
	if err != nil {
		return one, err
	}
	payload, err := p.header.PayloadSize()
	if err != nil {
		return one, err
	}
	one.Size.Package, one.Size.Installed, one.Size.Archive = p.size, installed, payload
	one.Location.Href = p.name
	one.Format.License, one.Format.Vendor = p.text(rpmutils.LICENSE), p.text(rpmutils.VENDOR)
	one.Format.Group, one.Format.BuildHost = p.text(rpmutils.GROUP), p.text(rpmutils.BUILDHOST)
	headers := p.header.GetRange()
	one.Format.HeaderRange.Start, one.Format.HeaderRange.End = headers.Start, headers.End
	one.Format.Provides.Entry = rpmProvides{"ccmadm", "EQ", p.version}
	for _, f := range p.files {
		if isProgram(f.Name()) {
			one.Format.Files = append(one.Format.Files, f.Name())
		}
	}
	return one, nil
}

// listed is one package in the other two lists.
type listed struct {
	PkgID   string     `xml:"pkgid,attr"`
	Name    string     `xml:"name,attr"`
	Arch    string     `xml:"arch,attr"`
	Version rpmVersion `xml:"version"`
	Files   []string   `xml:"file,omitempty"`
}

func (r *release) writeRPMFiles(file string) error {
	return r.writeRPMList(file, "filelists", filelistsSpace, func(p rpmPackage) []string {
		var names []string
		for _, f := range p.files {
			names = append(names, f.Name())
		}
		return names
	})
}

func (r *release) writeRPMOther(file string) error {
	return r.writeRPMList(file, "otherdata", otherSpace, func(rpmPackage) []string { return nil })
}

func (r *release) writeRPMList(file, element, space string, names func(rpmPackage) []string) error {
	packages, err := r.rpmPackages()
	if err != nil {
		return err
	}
	list := struct {
		XMLName  xml.Name
		Space    string   `xml:"xmlns,attr"`
		Number   int      `xml:"packages,attr"`
		Packages []listed `xml:"package"`
	}{XMLName: xml.Name{Local: element}, Space: space, Number: len(packages)}
	for _, p := range packages {
		list.Packages = append(list.Packages, listed{p.sum, "ccmadm", p.arch, p.version, names(p)})
	}
	return writeXMLGz(file, list)
}

func gunzipped(data []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(zr)
}
