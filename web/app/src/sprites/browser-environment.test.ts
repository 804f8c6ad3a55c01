import { signal } from '@preact/signals'
import { expect, it } from 'vitest'
import { publish } from '@watchfire/pages/swarm'
import { OpenPages } from '../ui/open-pages.ts'
import type { PageSession, Site } from '../ui/site.ts'
import { PICTURE_BYTES_MAX } from './picture-bounds.ts'
import { browserEnvironment } from './browser-environment.ts'

const CID = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'

function fakeEnvironment() {
  const opened: [string, number | undefined][] = []
  const closed: string[] = []
  const session = (cid: string): PageSession => ({
    cid,
    state: signal({ kind: 'joining' }),
    have: signal('none'),
    counts: signal(null),
    warning: signal(null),
    lastAvailable: signal(null),
    survivesReload: true,
    swarm: signal(null),
    key: signal(null),
    name: signal(null),
    unlock: () => undefined,
    traffic: signal({ receivedBytes: 0, sentBytes: 0 }),
    close: () => void closed.push(cid),
  })
  const site = {
    open(cid: string, bytesMax?: number) {
      opened.push([cid, bytesMax])
      return session(cid)
    },
    share: () => Promise.reject(new Error('must not be shared')),
  } satisfies Pick<Site, 'open' | 'share'> as unknown as Site
  const openPages = new OpenPages(site)
  return { opened, closed, session, openPages, environment: browserEnvironment(site, openPages) }
}

it('a page that this tab keeps is reused when it is thrown as a picture, in any form of its CID', async () => {
  for (const spelt of [CID, 'zb2rhmy65F3REf8SZp7De11gxtECBGgUKaLdiDj7MCGCHxbDW']) {
    const { opened, closed, session, openPages, environment } = fakeEnvironment()
    const page = session(spelt)
    openPages.keep(page, null)
    const reused = environment.open(CID)
    expect(reused.state).toBe(page.state)
    reused.close()
    const held = await environment.share(CID, new Blob([]))
    held.close()
    expect([opened, closed]).toEqual([[], []])
  }
})

it('another picture is opened, and rejected when it is larger than a picture may be', () => {
  const { opened, environment } = fakeEnvironment()
  environment.open(CID)
  expect(opened).toEqual([[CID, PICTURE_BYTES_MAX]])
})

it('a picture has the CID that it has as a shared page', async () => {
  const { environment } = fakeEnvironment()
  for (const length of [1, PICTURE_BYTES_MAX]) {
    const bytes = new Uint8Array(length).fill(7)
    const { root } = await publish([{ path: 'picture', blob: new Blob([bytes]) }])
    expect(await environment.cidOf(bytes)).toBe(root)
  }
})
