"""The texts of alerts and of the resolver's front page, in Portuguese and English."""

from __future__ import annotations

#: The Portuguese and the English text for each name. The Portuguese word for "Archive" is "acervo".
TEXTS: dict[str, tuple[str, str]] = {
    "alert_again": ("Tentar de novo", "Try again"),
    "alert_all_archives": (
        "Procurar a mesma URL persistente em todos os acervos",
        "Search all Archives for the same persistent URL",
    ),
    "alert_archives": ("Acervos", "Archives"),
    "alert_asked": ("URL persistente solicitada", "Requested persistent URL"),
    "alert_bare_item": (
        "Ver o item, sem o resto da URL",
        "See the item, without the rest of the URL",
    ),
    "alert_front": ("Ir à página inicial do resolvedor", "Go to the resolver's front page"),
    "alert_has": ("O que o item tem", "What the item has"),
    "alert_has_files": ("A lista de arquivos", "The list of files"),
    "alert_has_format": ("Os metadados em {}", "The metadata in {}"),
    "alert_has_metadata": ("Os metadados", "The metadata"),
    "alert_has_translation": ("A versão em {}", "The version in {}"),
    "alert_missing_part_access": (
        "O item existe, mas nenhum acervo tem um endereço dele que você possa abrir.",
        "The item exists, but no Archive has an address of the item that you may open.",
    ),
    "alert_missing_part_edition": (
        "Nenhum acervo sabe qual é a última edição do item.",
        "No Archive knows which edition of the item is the last.",
    ),
    "alert_missing_part_file": (
        "O item não tem o arquivo que a URL pede.",
        "The item does not have the file that the URL asks for.",
    ),
    "alert_missing_part_format": (
        "O item não tem metadados no formato que a URL pede.",
        "The item has no metadata in the format that the URL asks for.",
    ),
    "alert_missing_part_metadata": (
        "Nenhum acervo pode mostrar metadados do item.",
        "The item has no metadata that an Archive can show.",
    ),
    "alert_missing_part_original": (
        "Nenhum acervo declara ter o original do item.",
        "No Archive claims to have the original of the item.",
    ),
    "alert_missing_part_translation": (
        "O item não tem a tradução que a URL pede.",
        "The item does not have the translation that the URL asks for.",
    ),
    "alert_loop": (
        "As respostas dos acervos formam um círculo",
        "The answers of the Archives form a circle",
    ),
    "alert_loop_about": (
        "Cada acervo remete a outro item, e nenhum deles diz onde está o conteúdo. O endereço "
        "que você abriu está certo: o erro está no cadastro dos itens.",
        "Each Archive refers to another item, and none of them says where the content is. The "
        "address that you opened is correct: the error is in the records of the items.",
    ),
    "alert_loop_next": (
        "Avise a instituição que publicou o item e envie a ela a URL acima.",
        "Tell the institution that published the item, and send it the URL above.",
    ),
    "alert_malformed": ("Esta não é uma URL persistente", "This is not a persistent URL"),
    "alert_malformed_about": (
        "O endereço tem um erro. Talvez uma parte tenha se perdido quando ele foi copiado.",
        "The address contains an error. Perhaps a part was lost when the address was copied.",
    ),
    "alert_malformed_compare": (
        "Compare o endereço com o texto de onde você o copiou. Exemplo de URL persistente:",
        "Compare the address with the text from which you copied it. Example of a persistent URL:",
    ),
    "alert_malformed_next": (
        "Confira se falta uma parte no fim da linha, se há pontuação a mais e se letras "
        "parecidas foram trocadas (0 e O, 1 e I).",
        "Check whether a part is missing at the end of the line, whether there is extra "
        "punctuation, and whether similar characters were confused (0 and O, 1 and I).",
    ),
    "alert_meant": ("Você quis dizer", "Did you mean"),
    "alert_method": (
        "Este endereço só pode ser aberto, não alterado",
        "This address can only be opened, not changed",
    ),
    "alert_method_about": (
        "URLs persistentes aceitam apenas os métodos GET e HEAD.",
        "Persistent URLs accept only the methods GET and HEAD.",
    ),
    "alert_method_next": ("Abra o endereço no navegador.", "Open the address in your browser."),
    "alert_missing": (
        "O item existe, mas não tem o que foi pedido",
        "The item exists, but does not have what was requested",
    ),
    "alert_missing_next": (
        "Confira o que vem depois do identificador na URL, ou escolha algo que o item tem.",
        "Check the part of the URL after the identifier, or choose something that the item has.",
    ),
    "alert_other_copy": (
        "Ver o item assim mesmo, sem a garantia de que seja o original",
        "See the item anyway, without a guarantee that it is the original",
    ),
    "alert_reason": ("O que está errado", "What is wrong"),
    "alert_removed": ("Este item foi removido", "This item was removed"),
    "alert_removed_about": (
        "O identificador continua válido: ele identifica o item removido e nunca será "
        "atribuído a outro item.",
        "The identifier stays valid: it identifies the removed item and will never be given to "
        "another item.",
    ),
    "alert_removed_next": (
        "Veja na página do item por que ele foi removido e o que ler em seu lugar:",
        "See on the page of the item why it was removed and what to read instead:",
    ),
    "alert_silent": ("Nem todos os acervos responderam", "Not all Archives answered"),
    "alert_silent_about": (
        "{silent} de {asked} acervos não responderam a tempo, e nenhum dos outros tem o que "
        "foi pedido. O item pode estar em um acervo que não respondeu.",
        "{silent} of {asked} Archives did not answer in time, and none of the others has what "
        "was requested. The item may be in an Archive that did not answer.",
    ),
    "alert_silent_next": (
        "Espere um pouco e tente de novo. Se o problema continuar, tente mais tarde.",
        "Wait a moment and try again. If the problem continues, try again later.",
    ),
    "alert_silent_removed": (
        "Um dos acervos que responderam removeu o item.",
        "One of the Archives that answered has removed the item.",
    ),
    "alert_suspects": (
        "Mais de um acervo declara ter o original",
        "More than one Archive claims to have the original",
    ),
    "alert_suspects_about": (
        "Um item só tem um original, e você pediu o original. Não é possível saber qual destes "
        "acervos está certo; por isso você não foi redirecionado.",
        "An item has only one original, and you asked for the original. It is not possible to "
        "know which of these Archives is right, so you were not redirected.",
    ),
    "alert_suspects_next": (
        "Avise as instituições responsáveis por estes acervos: uma delas precisa corrigir seu "
        "cadastro.",
        "Tell the institutions responsible for these Archives: one of them has to correct its "
        "records.",
    ),
    "alert_too_long": ("A cadeia de itens é longa demais", "The chain of items is too long"),
    "alert_too_long_about": (
        "Cada item remete a outro, e a busca parou depois do número máximo de etapas. O que "
        "você pediu pode estar em um item mais adiante.",
        "Each item refers to another one, and the search stopped after the maximum number of "
        "steps. What you requested may be in an item further along the chain.",
    ),
    "alert_too_long_next": (
        "Abra o item acima, no qual a busca parou, e continue a partir dele. Ou avise a "
        "instituição que publicou o item.",
        "Open the item above, at which the search stopped, and continue from there. Or tell "
        "the institution that published the item.",
    ),
    "alert_unknown": ("Nenhum acervo tem o que foi pedido", "No Archive has what was requested"),
    "alert_unknown_about": (
        "Todos os acervos foram consultados, e nenhum tem um item com este identificador.",
        "All Archives were searched, and none has an item with this identifier.",
    ),
    "alert_unknown_here": (
        "Este acervo não tem o que foi pedido",
        "This Archive does not have what was requested",
    ),
    "alert_unknown_here_about": (
        "Nenhum item deste acervo tem este identificador, ou a parte pedida do item está em "
        "outro acervo.",
        "No item of this Archive has this identifier, or the requested part of the item is in "
        "another Archive.",
    ),
    "alert_unknown_next": (
        "Compare o identificador, letra por letra, com o texto de onde você o copiou.",
        "Compare the identifier, letter by letter, with the text from which you copied it.",
    ),
    "alert_unready": ("Não é possível responder agora", "No answer is possible at the moment"),
    "alert_unready_about": (
        "O serviço está temporariamente indisponível. O endereço está certo e continua válido.",
        "The service is temporarily unavailable. The address is correct and stays valid.",
    ),
    "alert_unready_next": ("Tente novamente em alguns instantes.", "Try again in a moment."),
    "front": ("Encontrar um item pelo seu identificador", "Find an item by its identifier"),
    "front_about": (
        "Um IBI identifica para sempre um documento, um conjunto de dados ou um programa. Este "
        "resolvedor leva você até o endereço atual do item.",
        "An IBI identifies a document, a data set or a program forever. This resolver takes "
        "you to the current address of the item.",
    ),
    "front_date": ("Gerado em (UTC)", "Minted on (UTC)"),
    "front_decode": ("Decodificar", "Decode"),
    "front_decode_about": (
        "A decodificação mostra onde e quando o identificador foi gerado. O item pode ter "
        "mudado de lugar desde então.",
        "Decoding shows where and when the identifier was minted. The item may have moved "
        "since then.",
    ),
    "front_decoded": ("O que o identificador contém", "What the identifier contains"),
    "front_decoded_resolve": ("Ir até o item", "Go to the item"),
    "front_empty": ("Escreva um IBI ou uma URL persistente.", "Enter an IBI or a persistent URL."),
    "front_examples": ("Exemplos", "Examples"),
    "front_form": ("Forma", "Form"),
    "front_form_ibip": ("IBIp, feito de um endereço IP", "IBIp, made from an IP address"),
    "front_form_legacy": (
        "identificador anterior à norma; não mostra onde nem quando foi gerado",
        "identifier from before the standard; it does not show where or when it was minted",
    ),
    "front_form_rep": (
        "nome de repositório, feito de um nome de domínio",
        "repository name, made from a domain name",
    ),
    "front_host": ("Servidor", "Host"),
    "front_ip": ("Endereço IP", "IP address"),
    "front_label": ("IBI ou URL persistente", "IBI or persistent URL"),
    "front_leads_to": ("Leva a", "Leads to"),
    "front_mdf_last": ("a última edição", "the last edition"),
    "front_mdf_metadata": ("os metadados", "the metadata"),
    "front_mdf_metadata_format": ("os metadados em um formato", "the metadata in a format"),
    "front_mdf_none": ("o próprio item", "the item itself"),
    "front_mdf_path": ("um arquivo do item", "a file of the item"),
    "front_mdf_translation": (
        "a tradução no idioma do seu navegador",
        "the translation into your browser's language",
    ),
    "front_mdf_translation_to": ("a tradução em um idioma", "the translation into a language"),
    "front_modifier": ("Sinais", "Signs"),
    "front_modifiers": ("Sinais depois do IBI", "Signs after the IBI"),
    "front_modifiers_about": (
        "Os sinais logo depois do IBI escolhem uma parte do item. Eles podem ser combinados, "
        "como em !:(oai_dc), e depois deles pode vir o caminho de um arquivo.",
        "The signs right after the IBI choose a part of the item. They may be combined, as in "
        "!:(oai_dc), and the path of a file may follow them.",
    ),
    "front_port": ("Porta", "Port"),
    "front_resolve": ("Ir até o item", "Go to the item"),
    "front_undecodable": (
        "O identificador está bem escrito, mas não mostra onde nem quando foi gerado",
        "The identifier is well-formed, but does not show where and when it was minted",
    ),
}
