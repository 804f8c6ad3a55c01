// The part of a browser's XMLHttpRequest that older clients use.

const DONE = 4

export class XMLHttpRequest {
  readyState = 0
  status = 0
  responseText = ''
  timeout = 0
  onreadystatechange = () => {}
  onerror = () => {}
  ontimeout = () => {}
  #request
  #headers = {}
  #abort = new AbortController()
  #isPending = false

  open(method, url) {
    this.#request = { method, url }
    this.readyState = 1
  }

  setRequestHeader(name, value) {
    this.#headers[name] = value
  }

  async send(body) {
    this.#isPending = true
    const { method, url } = this.#request
    const timer = this.timeout > 0 ? setTimeout(() => this.#end(this.ontimeout), this.timeout) : undefined
    try {
      const init = { method, headers: this.#headers, body: body ?? undefined, signal: this.#abort.signal }
      const response = await fetch(url, init)
      const text = await response.text()
      if (!this.#isPending) return
      this.status = response.status
      this.responseText = text
      this.#end(() => {})
    } catch {
      if (this.#isPending) this.#end(this.onerror)
    } finally {
      clearTimeout(timer)
    }
  }

  // As in a browser, an abort looks like any other end: state 4 and no response.
  abort() {
    if (this.#isPending) this.#end(() => {})
    this.readyState = 0
  }

  #end(notify) {
    this.#isPending = false
    this.#abort.abort()
    this.readyState = DONE
    this.onreadystatechange()
    notify()
  }
}
