import { part } from './part.ts'

const words = part('holders', {
  tabs: { '=1': '1 tab', other: '{count} tabs' },
  nodes: { '=1': '1 node', other: '{count} nodes' },
  both: '{tabs} and {nodes}',
  either: { other: '{count} tabs or nodes' },
})

/** So many who have something, `nodes` of them no tabs; `null` when nobody knows how many. */
export function holdersText(count: number, nodes: number | null): string {
  if (nodes === null) return words('either', { count })
  const tabs = words('tabs', { count: count - nodes })
  if (nodes <= 0) return tabs
  const others = words('nodes', { count: nodes })
  return nodes >= count ? others : words('both', { tabs, nodes: others })
}
