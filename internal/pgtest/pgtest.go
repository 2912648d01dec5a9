// Package pgtest gives tests a real PostgreSQL.
//
// [URL] makes a database of its own for a test: on the server that DATABASE_URL
// names, or on a private cluster that this process starts from the machine's
// binaries, once, and that ends with it. [Copy] makes one that is not empty.
// [Start] gives a cluster that a test may kill.
//
// PostgreSQL refuses to run as root; as root the server runs as the user
// "postgres", or "nobody" where there is none.
package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Cluster is one PostgreSQL server with its data.
type Cluster struct {
	dir    string
	bin    string
	port   int
	owner  *syscall.Credential
	log    *os.File
	server *exec.Cmd
	ended  chan struct{}
	// passing reports that nothing is durable, since nobody looks after a kill.
	passing bool
}

// Start makes a cluster below dir and starts it. Commits are durable, as in
// production: a test may kill the server and look what was lost.
func Start(ctx context.Context, dir string) (*Cluster, error) { return start(ctx, dir, false) }

func start(ctx context.Context, dir string, passing bool) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: filepath.Join(dir, "postgres"), bin: bin, passing: passing}
	if err := c.drop(dir); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := c.initialise(ctx); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := c.Restart(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// binaries finds the folder with initdb and postgres.
func binaries() (string, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	version := func(folder string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
		return n
	}
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	if found, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(found); err == nil {
			folders = append(folders, filepath.Dir(real))
		}
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "postgres")); err == nil {
			if _, err := os.Stat(filepath.Join(folder, "initdb")); err == nil {
				return folder, nil
			}
		}
	}
	return "", errors.New("PostgreSQL is missing: set DATABASE_URL, or install initdb and postgres (Debian: apt-get install postgresql; make setup does)")
}

// drop finds whom the server runs as, and gives them the folder.
func (c *Cluster) drop(parent string) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	c.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	// They must be able to reach it.
	for at := parent; at != "/" && at != "."; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(at, info.Mode().Perm()|0o011); err != nil {
				return err
			}
		}
	}
	return os.Chown(c.dir, int(uid), int(gid))
}

func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH"), "HOME=" + c.dir}
	cmd.SysProcAttr = attributes(c.owner)
	return cmd
}

func (c *Cluster) initialise(ctx context.Context) error {
	cmd := c.command(ctx, "initdb", "--pgdata", c.data(), "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--no-sync", "--no-locale")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// URL is the connection string of one of its databases.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.port, database)
}

// Restart starts a server that has ended, at the port that it had, and waits
// until it answers.
func (c *Cluster) Restart(ctx context.Context) error {
	if c.port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("start PostgreSQL: %w", err)
		}
		c.port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return fmt.Errorf("start PostgreSQL: %w", err)
		}
	}
	// What a killed server has started notices its end a moment later, and keeps
	// a new one away until then.
	err := c.launch(ctx)
	for deadline := time.Now().Add(5 * time.Minute); errors.Is(err, errRemains) && time.Now().Before(deadline); {
		err = c.launch(ctx)
	}
	return err
}

var errRemains = errors.New("processes of the server before are still there")

func (c *Cluster) launch(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(filepath.Dir(c.dir), "postgres.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	cmd := c.command(context.WithoutCancel(ctx), "postgres", "-D", c.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(c.port),
		"-c", "unix_socket_directories=", "-c", "max_connections=120", "-c", "shared_buffers=64MB", "-c", "log_min_messages=warning",
		// Restarts must be quick, and what a test leaves behind is thrown away.
		"-c", "max_wal_size=1GB", "-c", "checkpoint_timeout=1h")
	if c.passing {
		cmd.Args = append(cmd.Args, "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off", "-c", "jit=off")
	}
	cmd.Stdout, cmd.Stderr = log, log
	c.log = log
	ended := make(chan struct{})
	started := make(chan error)
	go func() {
		// The server is to end with the thread that started it: this one stays.
		runtime.LockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait()
		_ = log.Close()
		close(ended)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start PostgreSQL: %w", errors.Join(err, log.Close()))
	}
	c.server, c.ended = cmd, ended
	return c.ready(ctx)
}

// ready waits until the server answers.
func (c *Cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.ended:
			said, _ := os.ReadFile(c.log.Name())
			if bytes.Contains(said, []byte("pre-existing shared memory block")) {
				return errRemains
			}
			return fmt.Errorf("start PostgreSQL: it has ended: %s", bytes.TrimSpace(said))
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: it does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// Own gives a folder to whom the server runs as, for its files.
func (c *Cluster) Own(folder string) error {
	if c.owner == nil {
		return nil
	}
	return os.Chown(folder, int(c.owner.Uid), int(c.owner.Gid))
}

// Kill ends the server and all that it has started at once, as a loss of power
// would.
func (c *Cluster) Kill() {
	if c.server == nil || c.server.Process == nil {
		return
	}
	pid := c.server.Process.Pid
	// Its processes have left its group. Stopped, it starts no more of them.
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	<-c.ended
}

var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
	n       int
	mu      sync.Mutex
	// templates are databases that others are copies of, by their names.
	templates map[string]string
	making    sync.Mutex
}

// URL makes an empty database that is dropped when the test ends, and gives its
// connection string.
func URL(t testing.TB) string {
	t.Helper()
	admin := server(t)
	name := fresh()
	Create(t, admin, name)
	return dropped(t, admin, name)
}

// Copy makes a copy of a database that fill has filled, which it does once for
// each name, and gives its connection string. The copy is dropped when the test
// ends.
func Copy(t testing.TB, name string, fill func(address string) error) string {
	t.Helper()
	admin := server(t)
	from := template(t, admin, name, fill)
	to := fresh()
	err := errBusy
	// The server lets go of connections a moment after they were closed.
	for deadline := time.Now().Add(5 * time.Minute); errors.Is(err, errBusy) && time.Now().Before(deadline); {
		err = execute(t.Context(), admin, "CREATE DATABASE "+to+" TEMPLATE "+from)
	}
	if err != nil {
		t.Fatalf("copy the database %s: %v", name, err)
	}
	return dropped(t, admin, to)
}

// template returns the database of which copies with that name are made.
func template(t testing.TB, admin, name string, fill func(address string) error) string {
	t.Helper()
	shared.making.Lock()
	defer shared.making.Unlock()
	if made, ok := shared.templates[name]; ok {
		return made
	}
	made := fresh()
	Create(t, admin, made)
	if err := fill(at(t, admin, made)); err != nil {
		t.Fatalf("fill the database %s: %v", name, err)
	}
	if shared.templates == nil {
		shared.templates = map[string]string{}
	}
	shared.templates[name] = made
	return made
}

// errBusy reports that others are connected to a database.
var errBusy = errors.New("others are connected to the database")

// server returns the connection string of the server that all tests share.
func server(t testing.TB) string {
	t.Helper()
	if admin := os.Getenv("DATABASE_URL"); admin != "" {
		return admin
	}
	shared.once.Do(func() {
		var dir string
		if dir, shared.err = os.MkdirTemp("", "pgtest-"); shared.err == nil {
			shared.cluster, shared.err = start(context.Background(), dir, true)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster.URL("postgres")
}

// fresh returns the name of a database that there is not.
func fresh() string {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.n++
	return fmt.Sprintf("chimera_test_%d_%d", os.Getpid(), shared.n)
}

// dropped drops a database when the test ends, and returns its connection string.
func dropped(t testing.TB, admin, name string) string {
	t.Helper()
	t.Cleanup(func() {
		if err := drop(admin, name); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	return at(t, admin, name)
}

func drop(admin, name string) error {
	return execute(context.Background(), admin, "DROP DATABASE "+name+" WITH (FORCE)")
}

// at is the connection string of another database of the same server.
func at(t testing.TB, admin, name string) string {
	t.Helper()
	address, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	address.Path = "/" + name
	return address.String()
}

// Create makes an empty database with a connection to another one.
func Create(t testing.TB, admin, name string) {
	t.Helper()
	if err := execute(t.Context(), admin, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		t.Fatalf("make a test database: %v", err)
	}
}

func execute(ctx context.Context, admin, sql string) error {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == "55006" {
		err = fmt.Errorf("%w: %w", errBusy, err)
	}
	return errors.Join(err, conn.Close(ctx))
}

// Main runs a package's tests and ends the shared cluster: call it from
// TestMain, with os.Exit around it.
func Main(m *testing.M) int {
	code := m.Run()
	if admin := os.Getenv("DATABASE_URL"); admin != "" {
		for _, name := range shared.templates {
			if err := drop(admin, name); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
	if shared.cluster != nil {
		shared.cluster.Kill()
		if err := os.RemoveAll(filepath.Dir(shared.cluster.dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}
