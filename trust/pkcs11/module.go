//go:build pkcs11 && cgo

package pkcs11

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	p11 "github.com/miekg/pkcs11"
)

// library is what this package calls of a token's module.
type library interface {
	Initialize(...p11.InitializeOption) error
	Finalize() error
	GetSlotList(tokenPresent bool) ([]uint, error)
	GetTokenInfo(slot uint) (p11.TokenInfo, error)
	OpenSession(slot, flags uint) (p11.SessionHandle, error)
	CloseSession(p11.SessionHandle) error
	GetSessionInfo(p11.SessionHandle) (p11.SessionInfo, error)
	Login(session p11.SessionHandle, user uint, pin string) error
	FindObjectsInit(p11.SessionHandle, []*p11.Attribute) error
	FindObjects(session p11.SessionHandle, most int) ([]p11.ObjectHandle, bool, error)
	FindObjectsFinal(p11.SessionHandle) error
	GetAttributeValue(p11.SessionHandle, p11.ObjectHandle, []*p11.Attribute) ([]*p11.Attribute, error)
	SignInit(p11.SessionHandle, []*p11.Mechanism, p11.ObjectHandle) error
	Sign(p11.SessionHandle, []byte) ([]byte, error)
}

// registry holds the modules of a process: a module can be initialized only once in each,
// and whoever finalizes it ends the sessions of all.
type registry struct {
	mu      sync.Mutex
	modules map[string]*module
	load    func(path string) library
	now     func() time.Time
}

var process = registry{
	modules: map[string]*module{},
	load: func(path string) library {
		if lib := p11.New(path); lib != nil {
			return lib
		}
		return nil
	},
	now: time.Now,
}

// module is a loaded module. It stays loaded, since many modules do not survive being
// unloaded, but is finalized when the last key is closed.
type module struct {
	path string
	now  func() time.Time

	// mu is held while the module is called: not every module allows concurrent calls, and
	// it must not be called while it is finalized.
	mu  sync.Mutex
	lib library
	// keys counts the open keys.
	keys int
	// own is set if this package has initialized the module, and so may finalize it.
	own bool
	// generation counts how often the module was initialized: sessions of an earlier
	// generation are gone, and their handles may be those of other sessions now.
	generation int
	reloaded   time.Time
	// denied holds, for each token, the digest of a PIN that it has refused.
	denied map[string][sha256.Size]byte
}

// acquire returns the module at a path, initialized. The caller releases it.
func (r *registry) acquire(path string) (*module, error) {
	// Two names of one file are one module.
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("finding the module: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("finding the module: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("finding the module: %s is not a regular file", path)
	}
	m, err := r.module(path)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == 0 {
		if err := m.initialize(); err != nil {
			return nil, err
		}
	}
	m.keys++
	return m, nil
}

func (r *registry) module(path string) (*module, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.modules[path]; ok {
		return m, nil
	}
	lib := r.load(path)
	if lib == nil {
		return nil, fmt.Errorf("loading the module: %s is not a PKCS #11 module for this machine, or lacks a library that it needs", path)
	}
	m := &module{path: path, now: r.now, lib: lib, denied: map[string][sha256.Size]byte{}}
	r.modules[path] = m
	return m, nil
}

// initialize initializes the module, unless something else in this process has done so.
func (m *module) initialize() error {
	err := m.lib.Initialize()
	m.own = err == nil
	if m.own {
		m.generation++
	}
	if is(err, p11.CKR_CRYPTOKI_ALREADY_INITIALIZED) {
		return nil
	}
	return failed("initializing the module "+m.path, err)
}

// release ends the use of the module by a key. The caller holds m.mu.
func (m *module) release() error {
	m.keys--
	if m.keys > 0 || !m.own {
		return nil
	}
	m.own = false
	return failed("finalizing the module "+m.path, m.lib.Finalize())
}

// reloadEvery bounds how often [module.reload] disturbs the keys on other tokens.
const reloadEvery = 2 * time.Second

// reload initializes the module again: many look for tokens only then. This ends the
// sessions of all keys, which notice it and open others. It reports whether it has done
// so. The caller holds m.mu.
func (m *module) reload() bool {
	if now := m.now(); now.Sub(m.reloaded) < reloadEvery {
		return false
	}
	if m.own {
		// A module that fails to finalize will refuse to be initialized.
		_ = m.lib.Finalize()
	}
	err := m.initialize()
	m.reloaded = m.now()
	return err == nil && m.own
}
