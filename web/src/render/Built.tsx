import { useLayoutEffect, useRef } from 'preact/hooks'

interface BuiltProps {
  of: DocumentFragment
  as: 'pre' | 'div'
  class: string
  dir?: 'auto'
  tabIndex?: number
  onClick?: (event: MouseEvent) => void
}

/** Nodes that were built elsewhere, put into the page as they are. */
export function Built({ of, as: Tag, ...rest }: BuiltProps) {
  const holder = useRef<HTMLDivElement & HTMLPreElement>(null)
  useLayoutEffect(() => {
    holder.current?.replaceChildren(of.cloneNode(true))
  }, [of])
  return <Tag ref={holder} {...rest} />
}
