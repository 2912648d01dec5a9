package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sys/unix"
)

const (
	// envHunter makes this test binary a child of a worker that looks for the worker's secrets, and says
	// in which folders.
	envHunter = "WORKER_TEST_HUNT"
	// envGains names a copy of id that has set-user-ID.
	envGains = "WORKER_TEST_GAINS"
	// hunts is the last argument of an executable, and serves of an MCP server.
	hunts  = "hunt"
	serves = "serve"
)

// planted is what a test hides. It is told by its form alone: nobody tells a hunter what to look for.
var planted = regexp.MustCompile(`planted-([a-z]+)-[A-Z2-7]{26}`)

// haul is what a hunter has found.
type haul struct {
	UID int `json:"uid"`
	// Found says where each kind of secret was, and Opened which files could be read.
	Found  map[string][]string `json:"found"`
	Opened []string            `json:"opened"`
	// Changed says which files could be written to, and in which folders files could be made.
	Changed []string `json:"changed"`
	// Gains says whether a program with set-user-ID made it root.
	Gains bool `json:"gains"`
	// Traces and Signals say what the worker's process had to put up with, and Dumps whether the kernel
	// may write its memory to a file when it crashes.
	Traces  bool `json:"traces"`
	Signals bool `json:"signals"`
	Dumps   bool `json:"dumps"`
}

// hunter runs what a worker has started, and ends.
func hunter() {
	if os.Args[len(os.Args)-1] != serves {
		_ = json.NewEncoder(os.Stdout).Encode(hunt())
		os.Exit(0)
	}
	s := server.NewMCPServer("hound", "1.0.0", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool(hunts), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		raw, err := json.Marshal(hunt())
		return mcp.NewToolResultText(string(raw)), err
	})
	_ = server.ServeStdio(s)
	os.Exit(0)
}

// hunt looks wherever a child may think of.
func hunt() *haul {
	h := &haul{UID: os.Getuid(), Found: map[string][]string{}, Opened: []string{}, Changed: []string{}}
	worker := os.Getppid()
	of := fmt.Sprintf("/proc/%d/", worker)
	h.look("environment", read("/proc/self/environ"))
	h.descriptors("inherited", "/proc/self/fd", func(fd int) []byte {
		raw := make([]byte, 1<<20)
		n, _ := unix.Pread(fd, raw, 0)
		return raw[:max(n, 0)]
	})
	h.descriptors("open file", of+"fd", func(fd int) []byte { return read(fmt.Sprint(of, "fd/", fd)) })
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range all {
		if p == fmt.Sprint("/proc/", os.Getpid()) {
			continue
		}
		where := "another process"
		if p+"/" == of {
			where = "environment"
		}
		for _, name := range []string{"environ", "cmdline"} {
			h.look(where, read(filepath.Join(p, name)))
		}
	}
	tasks, _ := filepath.Glob(of + "task/[0-9]*/environ")
	for _, task := range tasks {
		h.look("environment", read(task))
	}
	h.memory(worker)
	h.Traces = traces(worker)
	h.Dumps = !regexp.MustCompile(`(?m)^Max core file size +0 +0 `).Match(read(of + "limits"))
	h.Signals = syscall.Kill(worker, 0) == nil
	for _, dir := range filepath.SplitList(os.Getenv(envHunter)) {
		h.folder(dir)
		h.folder(of + "root" + dir)
	}
	h.folder(of + "cwd/")
	h.Gains = strings.TrimSpace(string(output(os.Getenv(envGains), "-u"))) == "0"
	slices.Sort(h.Opened)
	h.Opened = slices.Compact(h.Opened)
	return h
}

// output is what a program says.
func output(program string, args ...string) []byte {
	out, _ := exec.Command(program, args...).Output()
	return out
}

func read(file string) []byte {
	raw, _ := os.ReadFile(file)
	return raw
}

// look notes which secrets are in some bytes.
func (h *haul) look(where string, raw []byte) {
	for _, m := range planted.FindAllSubmatch(raw, -1) {
		kind := string(m[1])
		if !slices.Contains(h.Found[kind], where) {
			h.Found[kind] = append(h.Found[kind], where)
		}
	}
}

// descriptors reads the open files of a process, but the standard ones.
func (h *haul) descriptors(where, dir string, read func(fd int) []byte) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n < 3 {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() {
			h.look(where, read(n))
		}
	}
}

// memory reads the memory of a process, by its file and by the system call. If nobody says where there is
// some, it tries where Go begins its heap.
func (h *haul) memory(pid int) {
	type span struct{ from, to uint64 }
	spans := []span{{0xc000000000, 0xc000000000 + 4<<20}}
	lines := bufio.NewScanner(bytes.NewReader(read(fmt.Sprintf("/proc/%d/maps", pid))))
	for lines.Scan() {
		var s span
		var mode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &s.from, &s.to, &mode); n == 3 && strings.HasPrefix(mode, "rw") && s.to-s.from < 1<<28 { // the race detector's are larger
			spans = append(spans, s)
		}
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err == nil {
		defer file.Close()
	}
	buf := make([]byte, 1<<20)
	for _, s := range spans {
		for at := s.from; at < s.to; at += uint64(len(buf)) {
			part := buf[:min(uint64(len(buf)), s.to-at)]
			if file != nil {
				n, _ := file.ReadAt(part, int64(at))
				h.look("memory", part[:n])
			}
			n, _ := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &part[0], Len: uint64(len(part))}}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(part)}}, 0)
			h.look("memory", part[:max(n, 0)])
		}
	}
}

// traces reports whether a process can be traced. It is let go at once.
func traces(pid int) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.PtraceAttach(pid) != nil {
		return false
	}
	_, _ = unix.Wait4(pid, nil, unix.WALL, nil)
	_ = unix.PtraceDetach(pid)
	return true
}

// change notes whether a file can be changed, or what is in a folder. It changes nothing.
func (h *haul) change(path string, d fs.DirEntry) {
	var f *os.File
	var err error
	switch {
	case d.IsDir():
		if f, err = os.CreateTemp(path, "hunter"); err == nil {
			_ = os.Remove(f.Name())
		}
	case d.Type().IsRegular():
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
	default:
		return
	}
	if err == nil {
		f.Close()
		h.Changed = append(h.Changed, path)
	}
}

// folder reads what is in a folder, without those of processes.
func (h *haul) folder(dir string) {
	_ = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if d != nil {
			h.change(file, d)
		}
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be read is not found
		}
		f, err := os.Open(file)
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		defer f.Close()
		raw, _ := io.ReadAll(io.LimitReader(f, 64<<20))
		h.look("files", raw)
		h.Opened = append(h.Opened, file)
		return nil
	})
}
