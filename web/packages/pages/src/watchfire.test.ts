import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Watchfire } from './watchfire.ts'

const ADDRESS = 'https://fire.example'
const CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'

/** Sockets that never open. */
let sockets: { readonly url: string; isClosed: boolean }[]
let requests: string[]
let fire: Watchfire
beforeEach(() => {
  sockets = []
  requests = []
  class SilentSocket {
    readonly readyState = 0
    isClosed = false
    readonly url: string
    constructor(url: string) {
      this.url = url
      sockets.push(this)
    }
    close() {
      this.isClosed = true
    }
  }
  vi.stubGlobal('WebSocket', SilentSocket)
  vi.stubGlobal('fetch', (url: string) => {
    requests.push(url)
    return Promise.resolve(Response.json({ limits: { page_bytes_max: { value: 10_000 } } }))
  })
  fire = new Watchfire(ADDRESS)
})
afterEach(() => {
  fire.close()
  vi.unstubAllGlobals()
})

const file = (words: string, name = 'a b.txt') => new File([words], name)
const textOf = async (page: { file(path: string): Promise<Blob> }) => (await page.file('')).text()

describe('a server', () => {
  it('has one connection and is asked once for its limits, when the first page needs them', async () => {
    expect([sockets, requests]).toEqual([[], []])
    const pages = await Promise.all([fire.open(CID), fire.open(`/p/${CID}`), fire.share([file('Hello')])])
    expect(sockets.map(({ url }) => url)).toEqual([expect.stringMatching(/^wss:\/\/fire\.example\/socket/)])
    expect(requests.filter((url) => url.endsWith('/limits'))).toEqual([`${ADDRESS}/limits`])
    const waiting = pages[0].file('')
    fire.close()
    expect(sockets[0]?.isClosed).toBe(true)
    await expect(waiting).rejects.toThrow('The page was closed.')
    await expect(pages[2].file('')).rejects.toThrow('The page was closed.')
    await expect(fire.open(CID)).rejects.toThrow('The connection to the server was closed.')
  })

  it('has a valid address', () => {
    expect(new Watchfire('HTTP://localhost:4000/p/x').address).toBe('http://localhost:4000/')
    for (const none of ['fire.example', 'ftp://fire.example', 'javascript:alert(1)', '/'])
      expect(() => new Watchfire(none)).toThrow(`"${none}" is not the address of a server.`)
  })
})

describe('a shared page', () => {
  it('has a link with its name, by which it is opened', async () => {
    const page = await fire.share([file('Hello')])
    expect(page.link).toBe(`${ADDRESS}/p/${page.root}#filename=a%20b.txt`)
    const opened = await fire.open(page.link)
    expect([await textOf(opened), opened.link]).toEqual(['Hello', page.link])
    const folder = await fire.share([file('1', '1.txt'), { path: 'in/2.txt', blob: file('2') }])
    expect(folder.link).toBe(`${ADDRESS}/p/${folder.root}`)
    expect(folder.listing()?.files.map(({ path }) => path)).toEqual(['1.txt', 'in/2.txt'])
  })

  it('that is private has its key in the link', async () => {
    const page = await fire.share([file('Only for you')], { private: true })
    expect(page.link).toBe(`${ADDRESS}/p/${page.root}#key=${page.key}&filename=a%20b.txt`)
    expect(await textOf(await fire.open(page.link))).toBe('Only for you')
    expect(await textOf(await fire.open(page.root, { key: page.key }))).toBe('Only for you')
    const locked = await fire.open(page.link, { key: 'A'.repeat(43) })
    await expect(locked.file('')).rejects.toMatchObject({ problem: { kind: 'wrong-key' } })
    locked.unlock(page.key ?? '')
    expect([await textOf(locked), locked.link]).toEqual(['Only for you', page.link])
  })

  it('that is live has an entry for each file, and cannot be private', async () => {
    const page = await fire.share([file('1', '1.txt'), file('2', '2.txt')], { live: true, name: 'Log' })
    expect([page.live()?.title, page.live()?.entries.map(({ name }) => name)]).toEqual(['Log', ['1.txt', '2.txt']])
    expect(page.link).toBe(`${ADDRESS}/p/${page.root}`)
    await expect(fire.share([], { live: true, private: true })).rejects.toThrow('A live page cannot be private.')
  })

  it('has at most the bytes that the server allows', async () => {
    for (const options of [{}, { private: true }, { live: true }])
      await expect(fire.share([file('x'.repeat(20_000))], options)).rejects.toMatchObject({ problem: { kind: 'too-large' } })
  })

  it('of another server, or none, is not opened', async () => {
    await expect(fire.open(`https://other.example/p/${CID}`)).rejects.toThrow('https://other.example')
    await expect(fire.open('/p/none')).rejects.toThrow('is not a CID')
    expect(sockets).toEqual([])
  })
})
