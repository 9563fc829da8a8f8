// Creates a topic, puts two messages with a key, and reads them in a consumer group.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type object map[string]any

var client = &http.Client{Timeout: 30 * time.Second}

// call makes one REST call and decodes its reply into reply, unless that is nil.
func call(method, path string, body, reply any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequest(method, os.Getenv("TALOS_URL")+"/rest/v1/"+path, content)
	if err != nil {
		return err
	}
	id, secret, _ := strings.Cut(os.Getenv("TALOS_KEY"), ":")
	request.SetBasicAuth(id, secret)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		problem, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s %s: %s %s", method, path, response.Status, problem)
	}
	if reply == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(reply)
}

func run(topic string) error {
	if err := call("POST", "topics", object{"name": topic, "partitions": 2}, nil); err != nil {
		return err
	}
	messages := []object{{"text": "hello", "key": "ann"}, {"text": "world", "key": "ann"}}
	if err := call("POST", "topics/"+topic+"/messages", object{"messages": messages}, nil); err != nil {
		return err
	}

	workers := "topics/" + topic + "/groups/readers/workers"
	var member struct{ Worker string }
	if err := call("POST", workers, nil, &member); err != nil {
		return err
	}
	worker := workers + "/" + member.Worker
	for read := 0; read < 2; {
		var found struct {
			Messages []struct {
				Partition, Offset int
				Key, Text         string
			}
		}
		if err := call("GET", worker+"/messages?encoding=text&wait_s=10", nil, &found); err != nil {
			return err
		}
		offsets := object{}
		for _, message := range found.Messages {
			fmt.Println("read", message.Key, message.Text)
			offsets[strconv.Itoa(message.Partition)] = message.Offset
			read++
		}
		if len(offsets) > 0 { // the group continues after these
			if err := call("POST", worker+"/commits", object{"offsets": offsets}, nil); err != nil {
				return err
			}
		}
	}
	return call("DELETE", worker, nil, nil)
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: quickstart TOPIC")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
