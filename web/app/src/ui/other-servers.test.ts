import { beforeEach, describe, expect, it, vi } from 'vitest'

const HERE = 'https://a.example'
const [B, C, D] = ['https://b.example', 'https://c.example:8443', 'https://d.example']
const CID = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
const ADDRESS = `${HERE}/p/${CID}#filename=x`

let servers: typeof import('./other-servers.ts')
let look: ReturnType<typeof vi.fn<() => void>>
beforeEach(async () => {
  look = vi.fn<() => void>()
  vi.resetModules()
  vi.stubGlobal('location', new URL(HERE))
  servers = await import('./other-servers.ts')
})

describe('the servers in the link of a page', () => {
  it('are joined if they are neighbours of this server', () => {
    servers.noteServers(CID, `#at=${B}&at=${C}`)
    servers.noteNeighbours([{ server: C, state: 'silent' }])
    expect([servers.serversToJoin(CID, look), servers.serversToAccept(CID)]).toEqual([[C], [B]])
    expect([servers.serversToJoin('another', look), servers.serversToAccept('another')]).toEqual([[], []])
  })

  it('are joined if the person has accepted them, and not asked about before the neighbours are known', () => {
    servers.noteServers(CID, `#at=${B}`)
    expect(servers.serversToAccept(CID)).toEqual([])
    servers.noteNeighbours(undefined)
    expect([servers.serversToJoin(CID, look), servers.serversToAccept(CID)]).toEqual([[], [B]])
    servers.acceptServer(CID, B)
    expect([servers.serversToJoin(CID, look), servers.serversToAccept(CID)]).toEqual([[B], []])
    // For this page alone.
    servers.noteServers('another', `#at=${B}`)
    expect([servers.serversToJoin('another', look), servers.serversToAccept('another')]).toEqual([[], [B]])
  })

  it('are looked at again by an open page when there are others', async () => {
    servers.noteNeighbours([])
    servers.serversToJoin(CID, look)
    servers.noteServers(CID, '#filename=x')
    expect(look).toHaveBeenCalledTimes(0)
    servers.noteServers(CID, `#at=${B}`)
    expect(look).toHaveBeenCalledTimes(1)
    servers.acceptServer(CID, B)
    expect(look).toHaveBeenCalledTimes(2)
    vi.stubGlobal('fetch', () => Promise.resolve(Response.json({ limits: {}, neighbours: [] })))
    await servers.updateNeighbours()
    expect(look).toHaveBeenCalledTimes(3)
  })

  it('are known after a reload whose address does not name them', async () => {
    const stored = new Map<string, string>()
    vi.stubGlobal('sessionStorage', {
      getItem: (key: string) => stored.get(key) ?? null,
      setItem: (key: string, value: string) => void stored.set(key, value),
    })
    servers.noteServers(CID, `#at=${B}`)
    vi.resetModules()
    servers = await import('./other-servers.ts')
    servers.noteServers(CID, '#file=x')
    servers.noteNeighbours([])
    expect([servers.serversToAccept(CID), servers.serversToAccept('another')]).toEqual([[B], []])
    vi.stubGlobal('sessionStorage', undefined)
  })

  it('are never those of a local network, if this server is on the internet', () => {
    servers.noteServers(CID, '#at=http://127.0.0.1:4000&at=http://192.168.1.7')
    servers.noteNeighbours([{ server: 'http://127.0.0.1:4000', state: 'answers' }])
    expect([servers.serversToJoin(CID, look), servers.serversToAccept(CID)]).toEqual([[], []])
  })
})

describe('the link to share', () => {
  it('is the address of the tab if no neighbour answers', () => {
    for (const state of ['silent', 'invalid', 'dense', 'itself', 'new']) servers.noteNeighbours([{ server: B, state }])
    expect(servers.linkToShare(ADDRESS, CID)).toEqual({ link: ADDRESS, hosts: [] })
  })

  it('names at most three neighbours that answer, before the servers that the link of the page has named', () => {
    servers.noteNeighbours([
      { server: B, state: 'answers' },
      { server: D, state: 'silent' },
      { server: C, state: 'answers' },
    ])
    servers.noteServers(CID, '#at=https://e.example&at=https://f.example')
    expect(servers.linkToShare(ADDRESS, CID)).toEqual({
      link: `${ADDRESS}&at=${B}&at=${C}&at=https://e.example`,
      hosts: ['b.example', 'c.example:8443'],
    })
  })

  it('names the servers of the link also when the address of a file does not, and no neighbour answers', () => {
    servers.noteServers(CID, `#at=${B}`)
    expect(servers.linkToShare(ADDRESS, CID)).toEqual({ link: `${ADDRESS}&at=${B}`, hosts: [] })
    expect(servers.linkToShare(ADDRESS, 'another')).toEqual({ link: ADDRESS, hosts: [] })
  })

  it('has the neighbours that answer now, and keeps them while this server does not answer', async () => {
    const limits = vi.fn<typeof fetch>().mockResolvedValueOnce(Response.json({ limits: {}, neighbours: [{ server: D, state: 'answers' }] }))
    vi.stubGlobal('fetch', limits.mockRejectedValue(new TypeError('offline')))
    servers.noteNeighbours([{ server: B, state: 'answers' }])
    for (let times = 0; times < 2; times++) {
      await servers.updateNeighbours()
      expect(servers.linkToShare(ADDRESS, CID).hosts).toEqual(['d.example'])
    }
  })
})
