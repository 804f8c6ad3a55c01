import { describe, expect, it } from 'vitest'
import type { Input, PeerId } from '../bitswap/index.ts'
import { cidOf, RAW } from '../content/index.ts'
import type { PageProblem } from './api.ts'
import { FakeClock } from '../../test/fake-clock.ts'
import { PagePeers } from './page-peers.ts'

const ALICE = '00000000000000aa' as PeerId
const BOB = '00000000000000bb' as PeerId
const totals = { bytesIn: 30, bytesOut: 20, bytesPerSecond: 10 }

function open() {
  const inputs: Input[] = []
  const connected: PeerId[] = []
  const problems: PageProblem[] = []
  const peers = new PagePeers({
    clock: new FakeClock(),
    random: () => 0.5,
    isOver: () => false,
    pageBytesMax: 1 << 20,
    frameBytesMax: 65_536,
    isLarge: () => false,
    isPartOfPage: () => true,
    push: async () => ({ status: 'ok', response: {} }),
    stun: () => null,
    loadDirect: null,
    room: () => null,
    handleInput: (input) => inputs.push(input),
    onConnected: ({ peer }) => connected.push(peer.id),
    onProblem: (problem) => problems.push(problem),
    onHeads: () => {},
    onConnecting: () => {},
    onDirect: () => {},
    onChange: () => {},
    isLoading: () => false,
    onQuiet: () => {},
  })
  return { peers, inputs, connected, problems }
}

describe('the peers of a page', () => {
  it('are connected once, however often the server names them', () => {
    const { peers, connected } = open()
    peers.add({ peer: ALICE, have: 'some', kind: 'tab' })
    peers.add({ peer: ALICE, have: 'all', kind: 'tab' })
    expect(connected).toEqual([ALICE])
    expect(peers.status(ALICE, totals, 9)).toMatchObject({ have: 'all', blocks: 9, receivedBytes: 30, sentBytes: 20 })
  })

  it('are replaced after a rejoin, and this tab is not one of them', () => {
    const { peers, inputs, connected } = open()
    peers.add({ peer: ALICE, have: 'none', kind: 'tab' })
    peers.replaceAll(BOB, [{ peer: BOB, have: 'none', kind: 'tab' }], null)
    expect(connected).toEqual([ALICE])
    expect(inputs).toEqual([{ kind: 'disconnected', peer: ALICE }])
    expect(peers.status(ALICE, totals, null)).toBe(null)
    peers.replaceAll(ALICE, [{ peer: BOB, have: 'some', kind: 'tab' }], null)
    peers.add({ peer: BOB, have: 'some', kind: 'tab' })
    expect(connected, 'an earlier id of this tab is no peer either').toEqual([ALICE])
  })

  it('are dropped for misbehaviour, reported once, and do not come back', () => {
    const { peers, inputs, connected, problems } = open()
    peers.add({ peer: ALICE, have: 'all', kind: 'tab' })
    peers.drop(ALICE, 'stalled')
    peers.drop(ALICE, 'stalled')
    peers.add({ peer: ALICE, have: 'all', kind: 'tab' })
    expect(connected).toEqual([ALICE])
    expect(inputs).toEqual([{ kind: 'disconnected', peer: ALICE }])
    expect([peers.droppedCount, problems.length]).toEqual([1, 1])
  })

  it('are known to have the blocks that were sent to them', async () => {
    const { peers } = open()
    peers.add({ peer: ALICE, have: 'some', kind: 'node' })
    const data = new Uint8Array([1])
    const cid = await cidOf(RAW, data)
    const member = peers.roster.get(ALICE)
    if (member !== null) peers.noteSent(member, [{ cid, data }])
    const map = peers.blockMap({ cids: [cid], isHere: () => true })
    expect([[...map.here], [...map.elsewhere], map.rarest?.nodes]).toEqual([[1], [1], 1])
  })
})
