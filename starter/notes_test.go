package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// notes is an MCP server that lists what tools.json has at that time. What a call finds as
// then.json, it lists from then on. Each listing and each call is a line of notes.log. To what else is asked,
// such as resources/list, it answers with the member of resources_list.json, a result or an error. The method
// in the file hangs it answers never.
func notes() {
	note := func(line string) {
		f, err := os.OpenFile("notes.log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(f, line)
		if err := f.Close(); err != nil {
			panic(err)
		}
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		if never, err := os.ReadFile("hangs"); err == nil && strings.TrimSpace(string(never)) == m.Method {
			note("never " + m.Method)
			continue
		}
		answer := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result) }
		switch m.Method {
		case "initialize":
			said, err := os.ReadFile("initialize.json")
			if err != nil {
				said = []byte(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"notes","version":"1"}}`)
			}
			answer(strings.TrimSpace(string(said)))
		case "tools/list":
			note("list")
			var tools []json.RawMessage
			raw, err := os.ReadFile("tools.json")
			if err == nil {
				err = json.Unmarshal(raw, &tools)
			}
			if err != nil {
				panic(err)
			}
			line, err := json.Marshal(map[string]any{"tools": tools})
			if err != nil {
				panic(err)
			}
			answer(string(line))
		case "tools/call":
			note("call " + m.Params.Name)
			if err := os.Rename("then.json", "tools.json"); err != nil && !os.IsNotExist(err) {
				panic(err)
			}
			answer(`{"content":[],"structuredContent":{"ok":true}}`)
		default:
			name := strings.ReplaceAll(m.Method, "/", "_") + ".json"
			if member, err := os.ReadFile(name); err == nil {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, strings.ReplaceAll(string(member), "\n", " "))
				continue
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
		}
	}
}
