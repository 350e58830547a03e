package main

import (
	"context"
	"fmt"
	"path/filepath"
)

const (
	repository    = "https://github.com/ccmadm/ccmadm"
	imageRegistry = "ghcr.io/ccmadm"
)

// platform is what a program is compiled for, in Go's words.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// program is one of the main packages below cmd.
type program struct {
	name, about string
	platforms   []platform
	// user is the numeric user that runs it in its image.
	user string
}

// artefact is one file of a release. Files are made in the order of the list, and may read those before them.
type artefact struct {
	name string
	make func(ctx context.Context, r *release, file string) error
}

func nodes() []platform { return []platform{{"linux", "amd64"}, {"linux", "arm64"}} }

func programs() []program {
	workstations := append(nodes(), platform{"darwin", "amd64"}, platform{"darwin", "arm64"})
	return []program{
		{"ccmadm", "bootstraps kubeadm clusters in external cloud mode", workstations, "0"},
		{"cloud-controller-manager", "the cloud-controller-manager of provider onprem", nodes(), "65532"},
		{"node-agent", "announces addresses of load balancers and of the control plane", nodes(), "0"},
	}
}

// artefacts is the whole release but for SHA256SUMS and the signatures of it, which cover the list.
func artefacts(r *release) []artefact {
	var list []artefact
	for _, p := range programs() {
		for _, on := range p.platforms {
			archive := r.archiveName(p.name, on)
			list = append(list,
				artefact{archive, func(ctx context.Context, r *release, file string) error { return r.writeArchive(ctx, file, p, on) }},
				artefact{archive + sbomSuffix, func(_ context.Context, r *release, file string) error { return r.writeSBOM(file, archive, p, on) }})
		}
	}
	for _, p := range programs() {
		image := r.imageName(p.name)
		list = append(list,
			artefact{image, func(_ context.Context, r *release, file string) error { return r.writeImage(file, p) }},
			artefact{image + sbomSuffix, func(_ context.Context, r *release, file string) error { return r.writeSBOM(file, image, p, nodes()...) }})
	}
	for _, kind := range packagers() {
		for _, on := range nodes() {
			list = append(list, artefact{
				r.packageName(kind, on),
				func(ctx context.Context, r *release, file string) error { return r.writePackage(ctx, file, kind, on) },
			})
		}
	}
	list = append(list, aptRepository(r)...)
	list = append(list, rpmRepository(r)...)
	list = append(list,
		artefact{r.chartName(), func(ctx context.Context, r *release, file string) error { return r.writeChart(ctx, file) }},
		artefact{"install.sh", expanded("install.sh")},
		artefact{"ccmadm.krew.yaml", expanded("krew.yaml")},
		artefact{"ccmadm.rb", expanded("homebrew.rb")},
		artefact{r.vexName(), func(_ context.Context, _ *release, file string) error { return writeVEX(file) }},
		artefact{r.provenanceName(), func(_ context.Context, r *release, file string) error { return r.writeProvenance(file) }})
	if r.signer == nil {
		return list
	}
	return append(list,
		artefact{attestationName(r.provenanceName()), func(_ context.Context, r *release, file string) error {
			return r.signer.writeAttestation(filepath.Join(r.dir, r.provenanceName()), file)
		}},
		artefact{publicKeyName, func(_ context.Context, r *release, file string) error { return r.signer.writePublicKey(file) }})
}

func (r *release) archiveName(program string, on platform) string {
	return fmt.Sprintf("%s_%s_%s.tar.gz", program, r.version, on)
}

func (r *release) imageName(program string) string {
	return fmt.Sprintf("%s_%s_image.tar", program, r.version)
}

func (r *release) provenanceName() string { return "ccmadm_" + r.version + "_provenance.json" }

func (r *release) vexName() string { return "ccmadm_" + r.version + ".openvex.json" }
