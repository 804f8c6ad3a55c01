import { beforeEach, describe, expect, it, vi } from 'vitest'

const HERE = 'https://a.example'
const [B, C, D] = ['https://b.example', 'https://c.example:8443', 'https://d.example']
const CID = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
const ADDRESS = `${HERE}/p/${CID}#filename=x`

let servers: typeof import('./other-servers.ts')
beforeEach(async () => {
  vi.resetModules()
  vi.stubGlobal('location', new URL(HERE))
  servers = await import('./other-servers.ts')
})

describe('the servers in the link of a page', () => {
  it('are joined if they are neighbours of this server', () => {
    servers.noteServers(CID, `#at=${B}&at=${C}`)
    servers.noteNeighbours([{ server: C, state: 'silent' }])
    expect([servers.serversToJoin(CID), servers.serversToAccept(CID)]).toEqual([[C], [B]])
    expect([servers.serversToJoin('another'), servers.serversToAccept('another')]).toEqual([[], []])
  })

  it('are joined if the person has accepted them, and not asked about before the neighbours are known', () => {
    servers.noteServers(CID, `#at=${B}`)
    expect(servers.serversToAccept(CID)).toEqual([])
    servers.noteNeighbours(undefined)
    expect([servers.serversToJoin(CID), servers.serversToAccept(CID)]).toEqual([[], [B]])
    servers.acceptServer(B)
    expect([servers.serversToJoin(CID), servers.serversToAccept(CID)]).toEqual([[B], []])
  })

  it('are never those of a local network, if this server is on the internet', () => {
    servers.noteServers(CID, '#at=http://127.0.0.1:4000&at=http://192.168.1.7')
    servers.noteNeighbours([{ server: 'http://127.0.0.1:4000', state: 'answers' }])
    expect([servers.serversToJoin(CID), servers.serversToAccept(CID)]).toEqual([[], []])
  })
})

describe('the link to share', () => {
  it('is the address of the tab if no neighbour answers', () => {
    for (const state of ['silent', 'invalid', 'dense', 'itself', 'new']) servers.noteNeighbours([{ server: B, state }])
    expect(servers.linkToShare(ADDRESS)).toEqual({ link: ADDRESS, hosts: [] })
  })

  it('names at most three neighbours that answer, before the servers that the address names', () => {
    servers.noteNeighbours([
      { server: B, state: 'answers' },
      { server: D, state: 'silent' },
      { server: C, state: 'answers' },
    ])
    expect(servers.linkToShare(`${ADDRESS}&at=https://e.example&at=https://f.example`)).toEqual({
      link: `${ADDRESS}&at=${B}&at=${C}&at=https://e.example`,
      hosts: ['b.example', 'c.example:8443'],
    })
  })

  it('has the neighbours that answer now, and keeps them while this server does not answer', async () => {
    const limits = vi.fn<typeof fetch>().mockResolvedValueOnce(Response.json({ limits: {}, neighbours: [{ server: D, state: 'answers' }] }))
    vi.stubGlobal('fetch', limits.mockRejectedValue(new TypeError('offline')))
    servers.noteNeighbours([{ server: B, state: 'answers' }])
    for (let times = 0; times < 2; times++) {
      await servers.updateNeighbours()
      expect(servers.linkToShare(ADDRESS).hosts).toEqual(['d.example'])
    }
  })
})
