import { part } from './part.ts'

const text = part('holders', {
  tabs: { '=1': '1 tab', other: '{count} tabs' },
  nodes: { '=1': '1 node', other: '{count} nodes' },
  both: '{tabs} and {nodes}',
  either: { other: '{count} tabs or nodes' },
})

/** Names a number of holders, `nodes` of them not tabs; `null` when the number of nodes is unknown. */
export function holdersText(count: number, nodes: number | null): string {
  if (nodes === null) return text('either', { count })
  const tabs = text('tabs', { count: count - nodes })
  if (nodes <= 0) return tabs
  const others = text('nodes', { count: nodes })
  return nodes >= count ? others : text('both', { tabs, nodes: others })
}
