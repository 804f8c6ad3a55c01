// The calls to the server.

import { setText } from './operator-dom.js'
import { visible } from './operator-text.js'

const TIMEOUT_MS = 8000
const TOKEN_KEY = 'watchfire-operator-token'

/** The server did not answer, or not in time. */
export class NoAnswer extends Error {}

/** The listener needs the operator's token. */
export class TokenNeeded extends Error {
  /** Whether the request had a token, which the server rejected. */
  constructor(hadToken) {
    super("the listener needs the operator's token")
    this.hadToken = hadToken
  }
}

/** The server answered with an error. */
export class ErrorAnswer extends Error {
  constructor(status, text) {
    super(`${visible(text)} (status ${status})`)
    this.status = status
  }
}

/** Shows why a call failed. An operator without a valid token is asked for one instead. */
export function showFailure(app, status, error, what, advice = '') {
  if (error instanceof TokenNeeded) app.askForToken(error)
  else setText(status, `${what}: ${error.message}.${advice}`)
}

const NO_CHANGES = 'Set admin.token to allow changes; without it the listener only reads.'

/**
 * Disables controls that change something if the listener has no token, and shows why in `note`. A listener with a token answers
 * no call without it, so a page that shows answers has a token wherever there is one.
 */
export function guardChanges(app, note, controls) {
  const isAllowed = app.api.token !== ''
  note.hidden = isAllowed
  setText(note, NO_CHANGES)
  for (const control of controls) {
    control.disabled = !isAllowed
    control.title = isAllowed ? '' : NO_CHANGES
  }
}

export class Api {
  #storage

  /** `storage` keeps the token until the tab is closed. */
  constructor(storage = sessionStorage) {
    this.#storage = storage
  }

  get token() {
    return this.#storage.getItem(TOKEN_KEY) ?? ''
  }

  set token(token) {
    if (token) this.#storage.setItem(TOKEN_KEY, token)
    else this.#storage.removeItem(TOKEN_KEY)
  }

  /** A GET. Parameters that are empty or undefined are left out. */
  get(path, parameters = {}, signal = null) {
    return this.#request(withQuery(path, parameters), {}, signal)
  }

  /** A file, which the server may take some time to make. */
  file(path, parameters, extraMs) {
    return this.#request(withQuery(path, parameters), { read: (response) => response.blob(), extraMs })
  }

  /** A change, such as a PUT, with an empty body. */
  send(method, path) {
    return this.#request(path, { method })
  }

  async #request(url, { method = 'GET', read = jsonOf, extraMs = 0 }, signal = /** @type {AbortSignal | null} */ (null)) {
    const token = this.token
    const headers = new Headers(token ? { authorization: `Bearer ${token}` } : {})
    const timeout = AbortSignal.timeout(TIMEOUT_MS + extraMs)
    const signals = signal ? AbortSignal.any([signal, timeout]) : timeout
    let response
    let answer
    try {
      // Below the address of the page, which a proxy may serve below a path of its own.
      response = await fetch(`.${url}`, { method, headers, signal: signals, cache: 'no-store', credentials: 'omit', redirect: 'error' })
      answer = await (response.ok ? read : jsonOf)(response)
    } catch (error) {
      if (signal?.aborted) throw error
      throw new NoAnswer(timeout.aborted ? `no answer within ${(TIMEOUT_MS + extraMs) / 1000} s` : 'the connection failed')
    }
    signal?.throwIfAborted()
    if (response.status === 401) throw new TokenNeeded(token !== '')
    if (!response.ok)
      throw new ErrorAnswer(response.status, String(answer?.message ?? answer?.reason ?? 'the server answered with an error'))
    if (answer === null) throw new ErrorAnswer(response.status, 'the answer is not valid JSON')
    return answer
  }
}

function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== '' && value !== undefined && value !== null)
  const query = new URLSearchParams(given).toString()
  return query ? `${path}?${query}` : path
}

/** The object in an answer, or null when there is none. */
async function jsonOf(response) {
  const text = await response.text()
  try {
    const value = JSON.parse(text)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}
