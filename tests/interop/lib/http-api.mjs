// Calls of the HTTP API. Each has a connection of its own, so that every process of a server gets some.

import assert from 'node:assert/strict'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'

import { withTimeout } from './deadlines.mjs'

/** A key for the API of a server that a test starts. */
export const API_KEY = 'the-key-of-the-tests'

/** Calls a method; `body` is JSON or, as a buffer, a binary payload. Returns status, headers and JSON. */
export async function callApi(server, method, body, { headers = {}, key = API_KEY } = {}) {
  const isBinary = Buffer.isBuffer(body)
  const kind = isBinary ? 'application/octet-stream' : 'application/json'
  const options = {
    method: 'POST',
    agent: false,
    headers: { 'Content-Type': kind, ...(key ? { Authorization: `Bearer ${key}` } : {}), ...headers },
  }
  const answer = new Promise((resolve, reject) => {
    const sent = request(server.http(`/api/${method}`), options, resolve)
    sent.on('error', reject).end(isBinary ? body : JSON.stringify(body))
  })
  const response = await withTimeout(answer, `an answer to ${method}`)
  return { status: response.statusCode, headers: response.headers, body: JSON.parse(await text(response)) }
}

/** The JSON of a call that succeeds. */
export async function api(server, method, body, options) {
  const answer = await callApi(server, method, body, options)
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  return answer.body
}
