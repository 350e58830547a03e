package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	sbomSuffix = ".spdx.json"
	noLicense  = "NOASSERTION"
)

// writeSBOM lists the modules in the programs of one artefact, from what the linker wrote into them. Nothing else is in an
// archive or in an image, so no scanner is needed, and what was not linked is not listed.
func (r *release) writeSBOM(file, of string, p program, on ...platform) error {
	sum, err := digest(filepath.Join(r.dir, of))
	if err != nil {
		return err
	}
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: of,
		DocumentNamespace: fmt.Sprintf("%s/releases/download/%s/%s/%s", repository, r.version, of, sum),
		CreationInfo: &v2_3.CreationInfo{
			Created: r.date.Format("2006-01-02T15:04:05Z"),
			Creators: []common.Creator{
				{CreatorType: "Organization", Creator: "ccmadm"}, {CreatorType: "Tool", Creator: "ccmadm-release-" + r.version},
			},
		},
	}
	artefact := r.describe(of, of, r.version, sum)
	artefact.PackageLicenseDeclared, artefact.PackageLicenseConcluded = "Apache-2.0", "Apache-2.0"
	doc.Packages = append(doc.Packages, artefact)
	doc.Relationships = append(doc.Relationships, relation("DOCUMENT", common.TypeRelationshipDescribe, artefact))
	for _, each := range on {
		if err := r.addProgram(doc, artefact, p, each); err != nil {
			return err
		}
	}
	return create(file, func(w io.Writer) error { return json.Write(doc, w, json.Indent(" ")) })
}

// addProgram adds the program of one platform to what holds it, and its modules to the program.
func (r *release) addProgram(doc *v2_3.Document, in *v2_3.Package, p program, on platform) error {
	binary := filepath.Join(r.work, on.String(), p.name)
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", p.name, err)
	}
	it := r.describe(p.name+"-"+on.String(), p.name, r.version, r.programs[binary])
	it.PackageFileName, it.PrimaryPackagePurpose = p.name, "APPLICATION"
	it.PackageLicenseDeclared, it.PackageLicenseConcluded = "Apache-2.0", "Apache-2.0"
	it.PackageExternalReferences = packageURL(vexProductID, r.version)
	doc.Packages = append(doc.Packages, it)
	doc.Relationships = append(doc.Relationships, relation(in.PackageSPDXIdentifier, common.TypeRelationshipContains, it))
	for _, m := range modules(info) {
		id := elementID(m.Path + "-" + m.Version)
		at := slices.IndexFunc(doc.Packages, func(p *v2_3.Package) bool { return p.PackageSPDXIdentifier == id })
		if at < 0 {
			at = len(doc.Packages)
			doc.Packages = append(doc.Packages, modulePackage(id, m))
		}
		doc.Relationships = append(doc.Relationships, relation(it.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, doc.Packages[at]))
	}
	return nil
}

// modules are those that were linked, and Go's standard library, which has its vulnerabilities, too.
func modules(info *buildinfo.BuildInfo) []*debug.Module {
	list := []*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, m)
	}
	return list
}

func (r *release) describe(id, name, version, sum string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: elementID(id), PackageVersion: version, PackageDownloadLocation: repository,
		PackageSupplier: &common.Supplier{SupplierType: "Organization", Supplier: "ccmadm"}, PackageCopyrightText: noLicense,
		IsFilesAnalyzedTagPresent: true,
		PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: sum}},
	}
}

func modulePackage(id common.ElementID, m *debug.Module) *v2_3.Package {
	return &v2_3.Package{
		PackageName: m.Path, PackageSPDXIdentifier: id, PackageVersion: m.Version, PackageDownloadLocation: noLicense,
		PackageLicenseDeclared: noLicense, PackageLicenseConcluded: noLicense, PackageCopyrightText: noLicense,
		IsFilesAnalyzedTagPresent: true,
		PackageExternalReferences: packageURL("pkg:golang/"+m.Path, m.Version),
	}
}

// packageURL names a module as databases of vulnerabilities do.
func packageURL(id, version string) []*v2_3.PackageExternalReference {
	return []*v2_3.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
		Locator: id + "@" + version,
	}}
}

func relation(from common.ElementID, kind string, to *v2_3.Package) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to.PackageSPDXIdentifier}, Relationship: kind,
	}
}

// elementID has only the characters that SPDX allows in an identifier.
func elementID(text string) common.ElementID {
	text = strings.ReplaceAll(text, "/", "--")
	return common.ElementID("Package-" + regexp.MustCompile(`[^A-Za-z0-9.-]+`).ReplaceAllString(text, "-"))
}
