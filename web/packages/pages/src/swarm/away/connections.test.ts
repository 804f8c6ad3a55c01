import { describe, expect, it } from 'vitest'
import type { Connection } from '@watchfire/client/connection'
import { openConnection, originOf, releaseConnection } from './connections.ts'

describe('the name of another server', () => {
  const secure = { origin: 'https://home.example', hostname: 'home.example' }
  const insecure = { origin: 'http://home.example:4000', hostname: 'home.example' }
  const near = { origin: 'https://localhost:4000', hostname: 'localhost' }

  it.each(['https://a.example', 'https://a.example/', 'HTTPS://A.example:443', 'https://[2001:db8::1]:8443'])('may be %s', (name) => {
    expect(originOf(name, secure)).toBe(new URL(name).origin)
  })

  it.each([
    ['https://a.example/p', 'a path'],
    ['https://a.example?q', 'a query'],
    ['https://a.example#f', 'a fragment'],
    ['https://user:secret@a.example', 'credentials'],
    ['ftp://a.example', 'another scheme'],
    ['wss://a.example', 'another scheme'],
    ['a.example', 'no scheme'],
    [`https://${'a.'.repeat(200)}example`, 'too many characters'],
    [7, 'no text'],
    ['https://home.example', 'the own server'],
    ['http://a.example', 'no TLS, and the document has it'],
    ['http://127.example', 'no TLS, and only looks like this machine'],
    ['http://127.0.0.1:6379', 'this machine'],
    ['http://localhost:4000', 'this machine'],
    ['https://192.168.0.1', 'a local network'],
    ['https://[fd00::1]', 'a local network'],
    ['https://printer.local', 'a local network'],
  ])('is not %s: %s', (name: unknown, _why) => {
    expect(originOf(name, secure)).toBe(null)
  })

  it.each(['http://127.0.0.1:6379', 'http://localhost:4001', 'https://192.168.0.1', 'https://a.example'])(
    'may be %s for a document of a local network',
    (name) => expect(originOf(name, near)).toBe(name),
  )

  it('may have no TLS if the document has none, or is none', () => {
    expect([originOf('http://a.example', insecure), originOf('http://a.example', undefined)]).toEqual([
      'http://a.example',
      'http://a.example',
    ])
  })
})

describe('the connections to other servers', () => {
  it('are at most twelve, each is shared and closed by its last user, and one that the browser forbids is none', () => {
    const open = new Set<string>()
    const home = {
      connect(endPoint: string): Connection {
        if (endPoint.includes('bad')) throw new DOMException('mixed content', 'SecurityError')
        open.add(endPoint)
        return { close: () => void open.delete(endPoint) } as Connection
      },
    } as Connection
    const first = openConnection(home, 'https://0.example')
    expect([...open]).toEqual(['wss://0.example/socket'])
    expect(openConnection(home, 'https://0.example')).toBe(first)
    expect(openConnection(home, 'https://bad.example')).toBe(null)
    for (let n = 1; n < 12; n++) expect(openConnection(home, `http://${n}.example`)).not.toBe(null)
    expect(openConnection(home, 'https://12.example')).toBe(null)
    releaseConnection(home, 'https://0.example')
    expect(open.size).toBe(12)
    releaseConnection(home, 'https://0.example')
    expect([open.size, openConnection(home, 'https://12.example')]).not.toContain(null)
  })
})
