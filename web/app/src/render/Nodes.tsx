import { useLayoutEffect, useRef } from 'preact/hooks'

interface BuiltProps {
  of: DocumentFragment
  as: 'pre' | 'div'
  class: string
  dir?: 'auto'
  tabIndex?: number
  onClick?: (event: MouseEvent) => void
}

/** Inserts nodes that were built elsewhere, unchanged. */
export function Nodes({ of, as: Tag, ...rest }: BuiltProps) {
  const holder = useRef<HTMLDivElement & HTMLPreElement>(null)
  useLayoutEffect(() => {
    holder.current?.replaceChildren(of.cloneNode(true))
  }, [of])
  return <Tag ref={holder} {...rest} />
}
