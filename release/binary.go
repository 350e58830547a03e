package main

import (
	"debug/elf"
	"debug/macho"
	"fmt"
)

// checkBinary reads the header of a program: its architecture, and, for Linux, that it needs no loader, since an image has
// none.
func checkBinary(file string, on platform) error {
	if on.os == "darwin" {
		f, err := macho.Open(file)
		if err != nil {
			return fmt.Errorf("read Mach-O header: %w", err)
		}
		defer func() { _ = f.Close() }()
		return sameArch(f.Cpu, map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[on.arch])
	}
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("read ELF header: %w", err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the program is not static: it needs a loader")
		}
	}
	return sameArch(f.Machine, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[on.arch])
}

func sameArch[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("the program is for %v, want %v", got, want)
	}
	return nil
}

// maxCLI is how large ccmadm may be for linux/amd64, in bytes: it is copied to every machine, and into a pod of each.
const maxCLI = 40_000_000

// checkSize refuses a ccmadm that has grown over the limit. `go tool nm -size -sort size` shows what is in one without -s.
func checkSize(program string, on platform, size int64) error {
	if program != "ccmadm" || on != (platform{"linux", "amd64"}) || size <= maxCLI {
		return nil
	}
	return fmt.Errorf("it has %d bytes, want at most %d", size, maxCLI)
}
