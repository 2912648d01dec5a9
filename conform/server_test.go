package conform_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The test binary is also the server that the tests check: this variable says in which way it is
// broken.
const serverVar = "CONFORM_TEST_SERVER"

func TestMain(m *testing.M) {
	if how, ok := os.LookupEnv(serverVar); ok {
		(&server{how: how, calls: map[string]int{}}).run()
		return
	}
	os.Exit(m.Run())
}

// server is a small MCP server over standard input and output. It has the tools read, which only
// reads, and put, which is idempotent. Where how is "", nothing is wrong with it.
type server struct {
	how   string
	lists int
	// calls counts the calls of each tool with each argument.
	calls map[string]int
}

func (s *server) run() {
	if s.how == "chatty" {
		fmt.Println("server is ready")
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string         `json:"name"`
				Arguments map[string]any `json:"arguments"`
				Cursor    string         `json:"cursor"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		result := func(format string, args ...any) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, fmt.Sprintf(format, args...))
		}
		fault := func(code int) {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`+"\n", m.ID, code)
		}
		switch m.Method {
		case "initialize":
			result(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"test","version":"1"}}`)
		case "notifications/cancelled":
			switch s.how {
			case "dies when cancelled":
				os.Exit(3)
			case "hangs when cancelled":
				select {}
			case "floods when cancelled":
				flood(in, strings.Repeat("x", 100_000)+"\n")
			case "writes a line without end":
				flood(in, strings.Repeat("x", 100_000))
			}
		case "tools/list":
			s.list(m.Params.Cursor, result, fault)
		case "tools/call":
			s.call(m.Params.Name, m.Params.Arguments, result, fault)
		default:
			if m.ID != nil {
				fault(-32601)
			}
		}
	}
	switch s.how {
	case "stays":
		select {}
	case "ends badly":
		os.Exit(1)
	}
}

// flood writes until the input ends.
func flood(in *bufio.Scanner, text string) {
	go func() {
		for {
			fmt.Print(text)
		}
	}()
	for in.Scan() {
	}
	os.Exit(0)
}

func (s *server) list(cursor string, result func(string, ...any), fault func(int)) {
	s.lists++
	read := map[string]any{
		"name": "read", "description": "reads a note",
		"inputSchema": map[string]any{
			"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}, "required": []string{"path"},
			"additionalProperties": false, "examples": []any{map[string]any{"path": "a"}},
		},
		"outputSchema": map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}, "required": []string{"text"}},
		"annotations":  map[string]any{"readOnlyHint": true, "openWorldHint": false},
	}
	put := map[string]any{
		"name": "put", "description": "writes a note",
		"inputSchema":  maps.Clone(read["inputSchema"].(map[string]any)),
		"outputSchema": read["outputSchema"],
		"annotations":  map[string]any{"readOnlyHint": false, "openWorldHint": false, "destructiveHint": false, "idempotentHint": true},
	}
	tools := []any{read, put}
	hints := read["annotations"].(map[string]any)
	input := read["inputSchema"].(map[string]any)
	switch s.how {
	case "pages loop":
		result(`{"tools":[],"nextCursor":"again"}`)
		return
	case "page faults":
		fault(-32603)
		return
	case "no second list":
		if s.lists > 1 {
			fault(-32603)
			return
		}
	case "twins":
		tools = []any{read, put, read}
	case "page without tools":
		result(`{"tool":[]}`)
		return
	case "bad name":
		read["name"] = "read note"
	case "similar names":
		put["name"] = "READ"
	case "changes":
		put["description"] = fmt.Sprintf("listed %d times", s.lists)
	case "loses":
		if s.lists > 1 {
			tools = tools[:1]
		}
	case "gains":
		if s.lists == 1 {
			tools = tools[:1]
		}
	case "shuffles":
		if s.lists%2 == 0 {
			slices.Reverse(tools)
		}
	case "restarts":
		input["description"] = fmt.Sprintf("by process %d", os.Getpid())
	case "large number":
		input["x-limit"] = json.Number("9007199254740993")
	case "bad schema":
		read["outputSchema"] = map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "strin"}}}
	case "far schema":
		read["outputSchema"] = map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"$ref": "https://example.com/text.json"}}}
	case "other schema":
		read["outputSchema"] = map[string]any{"type": "string"}
	case "no schema":
		delete(put, "inputSchema")
	case "no hint":
		delete(put["annotations"].(map[string]any), "idempotentHint")
	case "contradiction":
		hints["destructiveHint"] = true
	case "no annotations":
		read["annotations"] = "none"
	case "bad example":
		input["examples"] = []any{map[string]any{"path": "a"}, map[string]any{"Path": "a"}}
	case "undeclared output":
		delete(read, "outputSchema")
	}
	raw, err := json.Marshal(map[string]any{"tools": tools})
	if err != nil {
		panic(err)
	}
	result("%s", raw)
}

func (s *server) call(tool string, args map[string]any, result func(string, ...any), fault func(int)) {
	known := slices.Contains([]string{"read", "put", "READ", "read note"}, tool)
	path, _ := args["path"].(string)
	sound := path != "" && len(args) == 1
	s.calls[tool+" "+path]++
	const wrong = `{"isError":true,"content":[{"type":"text","text":"no such note"}]}`
	switch {
	case !known && s.how == "takes any tool":
	case !known && s.how == "dies of an unknown tool":
		os.Exit(3)
	case !known && s.how == "other fault":
		fault(-32000)
		return
	case !known && s.how == "says isError":
		result(wrong)
		return
	case !known:
		fault(-32602)
		return
	case !sound && s.how == "takes any arguments":
	case !sound && s.how == "hangs of bad arguments":
		return
	case !sound && s.how == "faults at bad arguments":
		fault(-32603)
		return
	case !sound:
		result(wrong)
		return
	case s.how == "fails":
		fault(-32603)
		return
	case s.how == "does not answer":
		return
	case s.how == "fails a second time" && s.calls[tool+" "+path] > 1:
		result(wrong)
		return
	case strings.HasPrefix(path, "missing") && s.how != "takes what is missing":
		result(wrong)
		return
	}
	switch text := "a note"; {
	case s.how == "wrong output":
		result(`{"content":[],"structuredContent":{"text":7}}`)
	case s.how == "no output":
		result(`{"content":[]}`)
	case s.how == "counts" && tool == "put":
		result(`{"content":[],"structuredContent":{"text":"%d"}}`, s.calls[tool+" "+path])
	default:
		result(`{"content":[],"structuredContent":{"text":%q}}`, text)
	}
}
