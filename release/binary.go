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
