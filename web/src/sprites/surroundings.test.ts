import { signal } from '@preact/signals'
import { expect, it } from 'vitest'
import { publish } from '../swarm/index.ts'
import { Hearth } from '../ui/hearth.ts'
import type { PageSession, Site } from '../ui/site.ts'
import { PICTURE_BYTES_MAX } from './picture-bounds.ts'
import { surroundingsOf } from './surroundings.ts'

const CID = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'

function pretended() {
  const opened: [string, number | undefined][] = []
  const closed: string[] = []
  const session = (cid: string): PageSession => ({
    cid, state: signal({ kind: 'joining' }), counts: signal(null), trouble: signal(null), lastLit: signal(null), swarm: signal(null), key: signal(null), name: signal(null), unlock: () => undefined,
    traffic: signal({ receivedBytes: 0, sentBytes: 0 }), close: () => void closed.push(cid),
  })
  const site = {
    open: (cid: string, bytesMax?: number) => (opened.push([cid, bytesMax]), session(cid)),
    kindle: () => Promise.reject(new Error('kindled')),
  } satisfies Pick<Site, 'open' | 'kindle'> as unknown as Site
  const hearth = new Hearth(site)
  return { opened, closed, session, hearth, surroundings: surroundingsOf(site, hearth) }
}

it('a page that this tab keeps stays so when it is thrown as a picture, however the page is spelt', async () => {
  for (const spelt of [CID, 'zb2rhmy65F3REf8SZp7De11gxtECBGgUKaLdiDj7MCGCHxbDW']) {
    const { opened, closed, session, hearth, surroundings } = pretended()
    const page = session(spelt)
    hearth.keep(page, null)
    const sought = surroundings.open(CID)
    expect(sought.state).toBe(page.state)
    sought.close()
    const held = await surroundings.kindle(CID, new Blob([]))
    held.close()
    expect([opened, closed]).toEqual([[], []])
  }
})

it('a picture that is no such page is looked for, and refused when it is larger than a picture', () => {
  const { opened, surroundings } = pretended()
  surroundings.open(CID)
  expect(opened).toEqual([[CID, PICTURE_BYTES_MAX]])
})

it('a picture is named as it is when it is shared as a page', async () => {
  const { surroundings } = pretended()
  for (const length of [1, PICTURE_BYTES_MAX]) {
    const bytes = new Uint8Array(length).fill(7)
    const { root } = await publish([{ path: 'picture', blob: new Blob([bytes]) }])
    expect(await surroundings.cidOf(bytes)).toBe(root)
  }
})
